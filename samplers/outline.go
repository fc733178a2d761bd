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

// keep takes the most probable outcomes.
func (o *outline) keep(p []float32) {
	if o.token == nil {
		o.token, o.p = make([]int32, 0, outlineSize), make([]float64, 0, outlineSize)
	}
	o.token, o.p = o.token[:0], o.p[:0]
	least := float32(0)
	for x, v := range p {
		if len(o.token) == outlineSize && v <= least {
			continue
		}
		at, _ := slices.BinarySearchFunc(o.p, float64(v), func(a, b float64) int { return cmp.Compare(b, a) })
		if len(o.token) == outlineSize {
			o.token, o.p = o.token[:outlineSize-1], o.p[:outlineSize-1]
		}
		o.token, o.p = slices.Insert(o.token, at, int32(x)), slices.Insert(o.p, at, float64(v))
		if least = 0; len(o.p) == outlineSize {
			least = float32(o.p[outlineSize-1])
		}
	}
}

// softmax turns logits into probabilities, in place.
func softmax(logits []float32) {
	top := logits[0]
	for _, l := range logits {
		top = max(top, l)
	}
	sum := 0.0
	for x, l := range logits {
		e := math.Exp(float64(l - top))
		logits[x] = float32(e)
		sum += e
	}
	for x, e := range logits {
		logits[x] = float32(float64(e) / sum)
	}
}
