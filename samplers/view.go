package samplers

import (
	"cmp"
	"math"
	"slices"
)

// Top returns the k positions of Masked with the largest scores, the largest first; among equals
// the lowest position. score takes an index into Masked.
func (v *View) Top(k int, score func(i int) float64) []int {
	return v.topOf(v.Masked, k, score)
}

// topOf is Top for positions other than Masked; score takes an index into positions.
//
// Scores are computed once and indexes are sorted, because a score may draw noise or take a
// logarithm, and a sort would compute it many times.
func (v *View) topOf(positions []int, k int, score func(i int) float64) []int {
	n := len(positions)
	scores := v.Floats(n)
	index := v.Ints(n)
	for i := range scores {
		scores[i] = score(i)
		index[i] = i
	}
	slices.SortFunc(index, func(a, b int) int {
		if c := cmp.Compare(scores[b], scores[a]); c != 0 {
			return c
		}
		return a - b
	})

	top := index[:min(k, n)]
	for j, i := range top {
		top[j] = positions[i]
	}
	return top
}

// firstWhile returns the first positions of a ranking of Masked, as long as enough holds for the
// index of each, and at least the first minCount. It asks enough in the order of the ranking and no
// further than the first that fails, so enough may add up what it sees.
func (v *View) firstWhile(ranked []int, minCount int, enough func(i int) bool) []int {
	n := min(minCount, len(ranked))
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

// scratch is memory that is lent during a step and reused after it, so that a step of a long run
// allocates nothing.
type scratch struct {
	ints   []int
	floats []float64
	tokens []int32

	// renoised is the view that withNoise returns.
	renoised View
}

// Reset reclaims all memory that Ints, Floats and Tokens32 returned. The loop calls it before each
// step.
func (v *View) Reset() {
	if s := v.scratch; s != nil {
		s.ints = s.ints[:0]
		s.floats = s.floats[:0]
		s.tokens = s.tokens[:0]
	}
}

// Ints returns n zeros, valid until the step ends.
func (v *View) Ints(n int) []int { return takeZeros(&v.memory().ints, n) }

// Floats returns n zeros, valid until the step ends.
func (v *View) Floats(n int) []float64 { return takeZeros(&v.memory().floats, n) }

// Tokens32 returns n zeros, valid until the step ends.
func (v *View) Tokens32(n int) []int32 { return takeZeros(&v.memory().tokens, n) }

// memory returns the scratch memory of steps, which a View that is made by hand has not yet.
func (v *View) memory() *scratch {
	if v.scratch == nil {
		v.scratch = new(scratch)
	}
	return v.scratch
}

// withNoise returns the view with another noise for Gumbel and Uniform, valid until the next call
// of withNoise.
func (v *View) withNoise(noise Use) *View {
	m := v.memory()
	m.renoised = *v
	m.renoised.Noise = noise
	return &m.renoised
}

// takeZeros cuts n zeros off the end of pool. If pool is full a larger one replaces it; slices cut
// from the old one stay valid.
func takeZeros[T any](pool *[]T, n int) []T {
	used := len(*pool)
	if used+n > cap(*pool) {
		*pool = make([]T, 0, max(2*cap(*pool), n, 1024))
		used = 0
	}
	*pool = (*pool)[:used+n]
	zeros := (*pool)[used : used+n : used+n]
	clear(zeros)
	return zeros
}

// Index returns the index of a masked position in Masked.
func (v *View) Index(position int) int {
	i, _ := slices.BinarySearch(v.Masked, position)
	return i
}

// setDrawnTokens sets an opening's tokens to those that were drawn at every masked position.
func (v *View) setDrawnTokens(o *Opening) {
	o.Tokens = v.Tokens32(len(o.Positions))
	o.LogP = v.Floats(len(o.Positions))
	for j, p := range o.Positions {
		i := v.Index(p)
		o.Tokens[j] = v.Token[i]
		o.LogP[j] = v.LogP[i]
	}
}
