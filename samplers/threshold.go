package samplers

// Threshold opens all positions with a confidence of at least Theta, and always the most confident
// one (Wu et al. 2025, "Fast-dLLM", confidence-aware parallel decoding).
//
// With Relax it falls with the share r of masks from the block's start on, as far as the network
// sees: Theta*(1 - Relax*(1-r)) (Streaming-dLLM, arXiv 2601.17917, context_aware_threshold of the
// authors' program, whose scripts have 0.3 to 0.6).
type Threshold struct {
	Theta float64 `param:"theta 1e-9..1 =0.9" help:"largest probability that is enough"`
	Relax float64 `param:"relax 1e-9..1 0=none" help:"share of theta that is dropped as the block fills"`
	ownPace
}

// Needs the largest probability.
func (Threshold) Needs(int, int) Need { return Need{Top: true} }

// Choose opens the confident positions, the most confident first.
func (t Threshold) Choose(v *View) (Opening, error) {
	theta := WithDefaults(t).Theta
	masksAtStart := v.FreeCount + v.MaskedBehind
	if masksAtStart > 0 {
		share := float64(len(v.Masked)+v.MaskedBehind) / float64(masksAtStart)
		theta *= 1 - t.Relax*(1-share)
	}
	return v.openWhileConfident(func(int) float64 { return theta }), nil
}

// Factor goes through positions by falling confidence and opens rank r = 1, 2, ... while its
// confidence is at least 1 - f/(r+1), and always the first (Wu et al. 2025, factor-based decoding).
type Factor struct {
	F float64 `param:"f 1e-9..1e6 =1" help:"rank r opens at a probability of at least 1 - f/(r+1)"`
	ownPace
}

// Needs the largest probability.
func (Factor) Needs(int, int) Need { return Need{Top: true} }

// Choose opens the confident positions, the most confident first.
func (f Factor) Choose(v *View) (Opening, error) {
	factor := WithDefaults(f).F
	return v.openWhileConfident(func(rank int) float64 { return 1 - factor/float64(rank+1) }), nil
}

// openWhileConfident opens positions by falling confidence while each reaches the bound of its
// rank, from 1.
func (v *View) openWhileConfident(bound func(rank int) float64) Opening {
	ranked := Confidence{}.Rank(v, len(v.Masked))
	rank := 1 // of the position before; the first one opens whatever its confidence is
	isConfident := func(i int) bool {
		rank++
		return v.P1[i] >= bound(rank)
	}
	return Opening{Positions: v.firstWhile(ranked, 1, isConfident)}
}
