package samplers

import (
	"cmp"
	"math"
	"slices"

	"unmask/internal/simd"
	"unmask/internal/simd/screen"
	"unmask/internal/simd/vec"
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
	o.token, o.p = o.token[:0], o.p[:0]
	o.insert(logits, floor(logits))
	for j, l := range o.p {
		o.p[j] = math.Exp(l - logSum)
	}
}

// insert takes the largest logits above least; p holds logits meanwhile.
func (o *outline) insert(logits []float32, least float32) {
	var large screen.Set
	for first := 0; first < len(logits); first += screen.Size {
		part := logits[first:min(first+screen.Size, len(logits))]
		screen.Ops(simd.Default().ISA).Above(&large, part, least)
		for i := range large.All() {
			l, x := part[i], int32(first+i)
			if l <= least { // it has grown
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
}

// floor is a number below the outlineSize largest logits, near the least of them: of twice as many columns
// of logits, half have a maximum above it.
func floor(logits []float32) float32 {
	least := float32(math.Inf(-1))
	if len(logits) < screen.Size {
		return least
	}
	ops := vec.Ops(simd.Default().ISA)
	var top [screen.Size]float32
	for rest := logits[copy(top[:], logits):]; len(rest) > 0; {
		n := min(len(rest), len(top))
		ops.Maximum(top[:n], rest[:n])
		rest = rest[n:]
	}
	n := len(top)
	for ; n > 2*outlineSize; n /= 2 {
		ops.Maximum(top[:n/2], top[n/2:n])
	}
	slices.Sort(top[:n])
	return math.Nextafter32(top[n-outlineSize], least)
}
