package samplers

import (
	"cmp"

	"unmask/param"
)

// Threshold opens all positions with a confidence of at least Theta, and always the most confident
// one (Wu et al. 2025, "Fast-dLLM", confidence-aware parallel decoding).
//
// With Relax it falls with the share r of masks from the block's start on, as far as the network
// sees: Theta*(1 - Relax*(1-r)) (Streaming-dLLM, arXiv 2601.17917, context_aware_threshold of the
// authors' program, whose scripts have 0.3 to 0.6).
type Threshold struct {
	Theta float64 // 0 means 0.9
	Relax float64 // 0: the threshold stays
	ownPace
}

var thresholdRule = Rule[Threshold]{
	Name:  "threshold",
	Line:  "all that are confident enough",
	Paper: "Wu et al. 2025, Fast-dLLM",
	Params: []Param[Threshold]{Number(func(t *Threshold) *float64 { return &t.Theta },
		param.Param{Name: "theta", Min: 1e-9, Max: 1, Default: "0.9",
			Help: "largest probability that is enough"}),
		Number(func(t *Threshold) *float64 { return &t.Relax },
			param.Param{Name: "relax", Min: 1e-9, Max: 1, Zero: "none", Default: "0",
				Help: "share of theta that is dropped as the block fills"})},
}

// Needs the largest probability.
func (Threshold) Needs(int, int) Need { return Need{Top: true} }

// Choose opens the confident positions, the most confident first.
func (t Threshold) Choose(v *View) (Opening, error) {
	theta, from := cmp.Or(t.Theta, 0.9), v.Free+v.Behind
	if from > 0 {
		masked := float64(len(v.Masked)+v.Behind) / float64(from)
		theta *= 1 - t.Relax*(1-masked)
	}
	return v.whileConfident(func(int) float64 { return theta }), nil
}

// Factor goes through positions by falling confidence and opens rank r = 1, 2, ... while its
// confidence is at least 1 - f/(r+1), and always the first (Wu et al. 2025, factor-based decoding).
type Factor struct {
	F float64 // 0 means 1
	ownPace
}

var factorRule = Rule[Factor]{
	Name:  "factor",
	Line:  "as many as their confidence together allows",
	Paper: "Wu et al. 2025, Fast-dLLM",
	Params: []Param[Factor]{Number(func(f *Factor) *float64 { return &f.F },
		param.Param{Name: "f", Min: 1e-9, Max: 1e6, Default: "1",
			Help: "rank r opens at a probability of at least 1 - f/(r+1)"})},
}

// Needs the largest probability.
func (Factor) Needs(int, int) Need { return Need{Top: true} }

// Choose opens the confident positions, the most confident first.
func (f Factor) Choose(v *View) (Opening, error) {
	factor := cmp.Or(f.F, 1)
	return v.whileConfident(func(rank int) float64 { return 1 - factor/float64(rank+1) }), nil
}

// whileConfident opens positions by falling confidence while each reaches the bound of its rank.
func (v *View) whileConfident(bound func(rank int) float64) Opening {
	rank := 1
	return Opening{Positions: v.first(Confidence{}.Rank(v, len(v.Masked)), 1, func(i int) bool {
		rank++
		return v.P1[i] >= bound(rank)
	})}
}
