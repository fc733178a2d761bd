package samplers

import (
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
func (g InfoGain) Candidates() int { return WithDefaults(g).Sets }

// Needs a token and the entropy at every masked position.
func (InfoGain) Needs(int, int) Need { return Need{Draw: true, Entropy: true} }

// Choose opens the best candidate.
func (g InfoGain) Choose(v *View) (Opening, error) {
	candidates := g.drawCandidates(v)
	for i := range candidates {
		v.setDrawnTokens(&candidates[i])
	}
	if len(candidates[0].Positions) == len(v.Masked) {
		return candidates[0], nil // all open, so there is nothing to choose
	}

	entropyLeft, masked, err := v.LookAhead(candidates)
	if err != nil {
		return Opening{}, err
	}
	best := -1
	bestGain := 0.0
	for i, candidate := range candidates {
		gain := -entropyLeft[i] / float64(max(masked[i], 1))
		for _, p := range candidate.Positions {
			gain -= v.Entropy[v.Index(p)]
		}
		if best < 0 || gain > bestGain {
			best = i
			bestGain = gain
		}
	}
	return candidates[best], nil
}

// drawCandidates returns the sets of positions to compare, without tokens and each set once. If the
// schedule opens all masked positions there is one.
func (g InfoGain) drawCandidates(v *View) []Opening {
	g = WithDefaults(g)
	score := func(i int) float64 { return math.Exp(v.LogP[i]) }
	mostConfident := v.Top(v.Quota, score)
	candidates := []Opening{{Positions: mostConfident}}
	if len(mostConfident) == len(v.Masked) {
		return candidates
	}

	seen := [][]int{slices.Sorted(slices.Values(mostConfident))}
	for c := 1; c < g.Sets; c++ {
		drawn := v.Top(v.Quota, func(i int) float64 {
			words := v.Rand.Words(v.Masked[i], v.Noise, c)
			return score(i)/g.Temperature + Gumbel((float64(words[0])+0.5)/(1<<32))
		})
		sorted := slices.Sorted(slices.Values(drawn))
		if !slices.ContainsFunc(seen, func(s []int) bool { return slices.Equal(s, sorted) }) {
			seen = append(seen, sorted)
			candidates = append(candidates, Opening{Positions: drawn})
		}
	}
	return candidates
}
