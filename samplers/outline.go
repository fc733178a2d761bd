package samplers

import (
	"math"

	"unmask/internal/topk"
)

// outlineSize is the number of outcomes that samplers keep of a marginal they must remember: a
// step's memory is positions x 64, never positions x vocabulary.
const outlineSize = 64

// outline holds the most probable outcomes of a marginal, the most probable first.
type outline struct {
	token []int32   // at most outlineSize
	p     []float64 // their probabilities
}

// keep sets o to the most probable outcomes of a marginal.
func (o *outline) keep(logits []float32, logSum float64) {
	if o.token == nil {
		o.token = make([]int32, 0, outlineSize)
		o.p = make([]float64, 0, outlineSize)
	}
	o.token = topk.Largest(o.token, logits, outlineSize)
	o.p = o.p[:0]
	for _, x := range o.token {
		o.p = append(o.p, math.Exp(float64(logits[x])-logSum))
	}
}
