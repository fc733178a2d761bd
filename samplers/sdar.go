package samplers

// Dynamic is the low-confidence dynamic remasking of SDAR (Cheng et al. 2025, "SDAR: a synergistic
// diffusion-autoregression paradigm") and LLaDA2.0: it opens all tokens that are more probable than
// Theta, but at least the schedule's number.
type Dynamic struct {
	Theta       float64 `param:"theta 1e-9..1 =0.9" help:"probability above which a token is kept"`
	Temperature float64 `param:"temperature 1e-3..1e3 0=none" help:"of the tokens; 0 takes the most probable ones"`
}

// Needs a token at every masked position.
func (d Dynamic) Needs(int, int) Need { return needTokens(d.Temperature) }

// Choose opens the confident positions, the most confident first.
func (d Dynamic) Choose(v *View) (Opening, error) {
	c := v.candidates(d.Temperature)
	return c.open(c.above(WithDefaults(d).Theta, v.Quota)), nil
}
