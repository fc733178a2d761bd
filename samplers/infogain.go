package samplers

import (
	"cmp"
	"math"
	"slices"
)

// InfoGain looks ahead (the Information-Gain Sampler of github.com/yks23/Information-Gain-Sampler,
// with the constants of its examples). Of several candidate sets of positions it opens the one with
// the largest J = -C - H. C is the sum of the entropies at the candidate's positions, and H the
// mean entropy at the positions left masked, from a pass with the candidate's tokens in place. All
// candidates of a sequence are one batch. The first is the most confident set; the others are drawn
// with the temperature.
//
// The authors' shortcut, opening all positions with a confidence above 0.9 without looking ahead,
// is the rule Threshold and not part of this one.
type InfoGain struct {
	Sets        int     `param:"sets 1..256 =8" help:"candidates of a step"`
	Temperature float64 `param:"temperature 1e-6..1e6 =0.1" help:"of the positions of a candidate"`
}

// Candidates returns the most sets in one call of View.LookAhead.
func (g InfoGain) Candidates() int { return cmp.Or(g.Sets, 8) }

// Needs a token and the entropy at every masked position.
func (InfoGain) Needs(int, int) Need { return Need{Draw: true, Entropy: true} }

// Choose opens the best candidate.
func (g InfoGain) Choose(v *View) (Opening, error) {
	score := func(i int) float64 { return math.Exp(v.LogP[i]) }
	sets := []Opening{{Positions: v.Top(v.Quota, score)}}
	if len(sets[0].Positions) == len(v.Masked) {
		v.drawn(&sets[0])
		return sets[0], nil
	}
	temperature := cmp.Or(g.Temperature, 0.1)
	known := [][]int{slices.Sorted(slices.Values(sets[0].Positions))}
	for c := 1; c < g.Candidates(); c++ {
		drawn := v.Top(v.Quota, func(i int) float64 {
			words := v.Rand.Words(v.Masked[i], v.Noise, c)
			return score(i)/temperature + Gumbel((float64(words[0])+0.5)/(1<<32))
		})
		sorted := slices.Sorted(slices.Values(drawn))
		if !slices.ContainsFunc(known, func(k []int) bool { return slices.Equal(k, sorted) }) {
			known = append(known, sorted)
			sets = append(sets, Opening{Positions: drawn})
		}
	}
	for i := range sets {
		v.drawn(&sets[i])
	}
	left, masked, err := v.LookAhead(sets)
	if err != nil {
		return Opening{}, err
	}
	best, at := 0.0, -1
	for i, s := range sets {
		j := -left[i] / float64(max(masked[i], 1))
		for _, p := range s.Positions {
			j -= v.Entropy[v.Index(p)]
		}
		if at < 0 || j > best {
			best, at = j, i
		}
	}
	return sets[at], nil
}
