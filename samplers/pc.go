package samplers

import "math"

// PC opens positions by exp(-Lambda*i) * min(-p*log f, Clip), the largest first: i is the position,
// p the probability of its most probable token and f that token's share of a corpus, so that early
// positions open first, and common tokens late (Huang et al. 2025, "PC-Sampler", arXiv 2508.13021;
// pc_sampler_function of the authors' program, which has 0 to 1 for Lambda by the task).
type PC struct {
	Lambda float64 `param:"lambda 1e-9..1e3 =0.25" help:"how much later positions lose, for each place"`
	Clip   float64 `param:"clip 1e-9..1e3 =10" help:"the largest score before the place counts"`
	// Frequency has the share f of each token in a corpus. nil, and so all rules that are read from
	// a text, has the same for all tokens.
	Frequency []float64
}

// Needs the most probable token.
func (PC) Needs(int, int) Need { return Need{Top: true} }

// Rank returns the k positions with the largest scores. Only differences of places matter.
func (p PC) Rank(v *View, k int) []int {
	p = WithDefaults(p)
	return v.Top(k, func(i int) float64 {
		share := 1 / float64(v.Outcomes)
		if p.Frequency != nil {
			share = p.Frequency[v.Arg[i]]
		}
		place := math.Exp(-p.Lambda * float64(v.Masked[i]-v.Masked[0]))
		return place * min(-v.P1[i]*math.Log(share+1e-9), p.Clip)
	})
}
