package samplers

import (
	"cmp"
	"math"
	"slices"
)

// Top returns the k positions of Masked with the largest scores, the largest first; among equals
// the lowest position. score takes an index into Masked.
func (v *View) Top(k int, score func(i int) float64) []int {
	return v.top(v.Masked, k, score)
}

// top is Top for positions other than Masked.
func (v *View) top(positions []int, k int, score func(i int) float64) []int {
	n := len(positions)
	scores, index := v.Floats(n), v.Ints(n)
	for i := range scores {
		scores[i], index[i] = score(i), i
	}
	slices.SortFunc(index, func(a, b int) int {
		if c := cmp.Compare(scores[b], scores[a]); c != 0 {
			return c
		}
		return a - b
	})
	index = index[:min(k, n)]
	for j, i := range index {
		index[j] = positions[i]
	}
	return index
}

// first returns the first positions of a ranking of Masked, as long as enough holds for the index
// of each, and at least the `least` first.
func (v *View) first(ranked []int, least int, enough func(i int) bool) []int {
	n := min(least, len(ranked))
	for n < len(ranked) && enough(v.Index(ranked[n])) {
		n++
	}
	return ranked[:n]
}

// Uniform returns a number in (0, 1) for Masked[i].
func (v *View) Uniform(i int) float64 { return v.Rand.Uniform(v.Masked[i], v.Noise) }

// Gumbel returns standard Gumbel noise for Masked[i].
func (v *View) Gumbel(i int) float64 { return Gumbel(v.Uniform(i)) }

// Gumbel turns a uniform number in (0, 1) into standard Gumbel noise.
func Gumbel(u float64) float64 { return -math.Log(-math.Log(u)) }

// scratch is memory that is lent during a step and reused after it.
type scratch struct {
	ints   []int
	floats []float64
	tokens []int32
	other  View // the view that with returns
}

// Reset reclaims all memory that Ints, Floats and Tokens32 returned. The loop calls it before each
// step.
func (v *View) Reset() {
	if s := v.scratch; s != nil {
		s.ints, s.floats, s.tokens = s.ints[:0], s.floats[:0], s.tokens[:0]
	}
}

// Ints returns n zeros, valid until the step ends.
func (v *View) Ints(n int) []int { return take(&v.memory().ints, n) }

// Floats returns n zeros, valid until the step ends.
func (v *View) Floats(n int) []float64 { return take(&v.memory().floats, n) }

// Tokens32 returns n zeros, valid until the step ends.
func (v *View) Tokens32(n int) []int32 { return take(&v.memory().tokens, n) }

func (v *View) memory() *scratch {
	if v.scratch == nil {
		v.scratch = new(scratch)
	}
	return v.scratch
}

// with returns the view with another noise for Gumbel and Uniform, valid until the next call of
// with.
func (v *View) with(noise Use) *View {
	m := v.memory()
	m.other = *v
	m.other.Noise = noise
	return &m.other
}

// take cuts n zeros off the end of pool. If pool is full a larger one replaces it; slices cut from
// the old one stay valid.
func take[T any](pool *[]T, n int) []T {
	used := len(*pool)
	if used+n > cap(*pool) {
		*pool, used = make([]T, 0, max(2*cap(*pool), n, 1024)), 0
	}
	*pool = (*pool)[:used+n]
	out := (*pool)[used : used+n : used+n]
	clear(out)
	return out
}

// Index returns the index of a masked position in Masked.
func (v *View) Index(position int) int {
	i, _ := slices.BinarySearch(v.Masked, position)
	return i
}

// drawn sets an opening's tokens to those that were drawn at every masked position.
func (v *View) drawn(o *Opening) {
	o.Tokens, o.LogP = v.Tokens32(len(o.Positions)), v.Floats(len(o.Positions))
	for j, p := range o.Positions {
		i := v.Index(p)
		o.Tokens[j], o.LogP[j] = v.Token[i], v.LogP[i]
	}
}
