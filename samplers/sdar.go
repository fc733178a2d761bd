package samplers

import (
	"cmp"

	"unmask/param"
)

// Dynamic is the low-confidence dynamic remasking of SDAR (Cheng et al. 2025, "SDAR: a synergistic
// diffusion-autoregression paradigm") and LLaDA2.0: it opens all tokens that are more probable than
// Theta, but at least the schedule's number.
type Dynamic struct {
	Theta       float64 // 0 means 0.9
	Temperature float64 // of the tokens; 0 means the most probable ones
}

var dynamicRule = Rule[Dynamic]{
	Name: "dynamic", Line: "all that are confident enough, at least as many as the schedule",
	Paper: "Cheng et al. 2025, SDAR; LLaDA2.0",
	Params: []Param[Dynamic]{
		Number(func(d *Dynamic) *float64 { return &d.Theta }, confidentEnough),
		Number(func(d *Dynamic) *float64 { return &d.Temperature }, tokenTemperature),
	},
}

// confidentEnough is the threshold of rules for block diffusion. SDAR's examples have 0.85 to 0.95,
// LLaDA2.0's 0.95, Fast-dLLM v2's 0.9.
var confidentEnough = param.Param{Name: "theta", Min: 1e-9, Max: 1, Default: "0.9",
	Help: "probability above which a token is kept"}

// Needs a token at every masked position.
func (d Dynamic) Needs(int, int) Need { return needTokens(d.Temperature) }

// Choose opens the confident positions, the most confident first.
func (d Dynamic) Choose(v *View) (Opening, error) {
	c := v.candidates(d.Temperature)
	return c.open(c.above(cmp.Or(d.Theta, 0.9), v.Quota)), nil
}

// Tempered draws from the tempered marginals and ranks by them too, as the authors' programs do:
// there the logits are divided by the temperature before anything else.
func (d Dynamic) Tempered(temperature float64) (any, float64, error) {
	marginals, err := drawTempered(&d.Temperature, temperature, "dynamic")
	return d, marginals, err
}

// Uncached returns why there can be no second stage.
func (Dynamic) Uncached() string { return "dynamic draws tokens before it chooses positions" }
