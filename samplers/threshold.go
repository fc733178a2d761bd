package samplers

// Threshold opens all positions with a confidence of at least Theta, and the most confident
// one always (Wu et al. 2025, "Fast-dLLM", confidence-aware parallel decoding).
type Threshold struct {
	Theta float64 // 0 means 0.9
}

// Plan takes at most one step a position.
func (Threshold) Plan(_, free int) (int, error) { return free, nil }

// Needs the largest probability.
func (Threshold) Needs(int, int) Need { return Need{Top: true} }

// Choose opens the confident, the most confident first.
func (t Threshold) Choose(v *View) (Opening, error) {
	theta := orDefault(t.Theta, 0.9)
	return v.whileConfident(func(int) float64 { return theta }), nil
}

// Check wants a probability.
func (t Threshold) Check() error { return fraction("theta", t.Theta) }

// Factor opens, sorted by confidence, rank r = 1, 2, ... while its confidence is at least
// 1 - f/(r+1); the first always (Wu et al. 2025, factor-based decoding).
type Factor struct {
	F float64 // 0 means 1
}

// Plan takes at most one step a position.
func (Factor) Plan(_, free int) (int, error) { return free, nil }

// Needs the largest probability.
func (Factor) Needs(int, int) Need { return Need{Top: true} }

// Choose opens the confident, the most confident first.
func (f Factor) Choose(v *View) (Opening, error) {
	factor := orDefault(f.F, 1)
	return v.whileConfident(func(rank int) float64 { return 1 - factor/float64(rank+1) }), nil
}

// Check wants a factor of at least 0.
func (f Factor) Check() error { return positive("f", f.F) }

// whileConfident opens positions sorted by confidence while they reach a rank's bound.
func (v *View) whileConfident(bound func(rank int) float64) Opening {
	ranked := Confidence{}.Rank(v, len(v.Masked))
	n := min(1, len(ranked))
	for n < len(ranked) && v.P1[v.Index(ranked[n])] >= bound(n+1) {
		n++
	}
	return Opening{Positions: ranked[:n]}
}
