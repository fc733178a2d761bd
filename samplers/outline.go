package samplers

import (
	"cmp"
	"math"
	"slices"

	"unmask/internal/simd"
	"unmask/internal/simd/screen"
)

// outlineSize is how many outcomes of a marginal are kept where a sampler must remember one:
// a step's memory is positions x 64, never positions x vocabulary.
const outlineSize = 64

// outlinePart is how many logits are compared with the least that is kept at a time.
const outlinePart = 256

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
	least, ops := float32(math.Inf(-1)), screen.Ops(simd.Default().ISA)
	var large screen.Set
	for first := 0; first < len(logits); first += outlinePart {
		part := logits[first:min(first+outlinePart, len(logits))]
		ops.Above(&large, part, least)
		for i := range large.All() {
			l, x := part[i], int32(first+i)
			if l <= least {
				continue
			}
			at, _ := slices.BinarySearchFunc(o.p, float64(l), func(a, b float64) int { return cmp.Compare(b, a) })
			if len(o.p) == outlineSize {
				o.token, o.p = o.token[:outlineSize-1], o.p[:outlineSize-1]
			}
			o.token, o.p = slices.Insert(o.token, at, x), slices.Insert(o.p, at, float64(l))
			if len(o.p) == outlineSize {
				least = float32(o.p[outlineSize-1])
			}
		}
	}
	for j, l := range o.p {
		o.p[j] = math.Exp(l - logSum)
	}
}
