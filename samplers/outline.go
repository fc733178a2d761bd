package samplers

import (
	"cmp"
	"math"
	"slices"
)

// outlineSize is how many outcomes of a marginal are kept where a sampler must remember one:
// a step's memory is positions x 64, never positions x vocabulary.
const outlineSize = 64

// outline is the most probable outcomes of a marginal, the most probable first.
type outline struct {
	token []int32
	p     []float64
}

// keep takes the most probable outcomes of a marginal.
func (o *outline) keep(logits []float32, logSum float64) {
	if o.token == nil {
		o.token, o.p = make([]int32, 0, outlineSize), make([]float64, 0, outlineSize)
	}
	o.token, o.p = o.token[:0], o.p[:0] // p holds logits until all have been seen
	least := float32(math.Inf(-1))
	for x, l := range logits {
		if l <= least {
			continue
		}
		at, _ := slices.BinarySearchFunc(o.p, float64(l), func(a, b float64) int { return cmp.Compare(b, a) })
		if len(o.p) == outlineSize {
			o.token, o.p = o.token[:outlineSize-1], o.p[:outlineSize-1]
		}
		o.token, o.p = slices.Insert(o.token, at, int32(x)), slices.Insert(o.p, at, float64(l))
		if len(o.p) == outlineSize {
			least = float32(o.p[outlineSize-1])
		}
	}
	for j, l := range o.p {
		o.p[j] = math.Exp(l - logSum)
	}
}
