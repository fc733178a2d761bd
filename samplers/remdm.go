package samplers

import (
	"cmp"
	"math"
)

// ReMDM masks open positions again, with a probability sigma per step, during vanilla sampling
// (Wang et al. 2025, "Remasking discrete diffusion models with inference-time scaling"; formulas of
// equation 5 and section 4, constants of the authors' code). With alpha = 1-t, a masked position
// opens with probability (alpha_s - (1-sigma)*alpha_t)/(1-alpha_t).
type ReMDM struct {
	Strategy string  `param:"strategy cap|rescale|conf|loop" help:"how the chance of masking again follows the step"`
	Eta      float64 `param:"eta 1e-9..1" help:"strength of cap, rescale and loop; without, 0.008, 0.015 and 0.02"`
}

// In the strategy loop, alpha stays at loopAlpha between the times loopOn and loopOff.
const (
	loopOn    = 0.55
	loopOff   = 0.05
	loopAlpha = 0.9
)

// Remasks marks that ReMDM closes positions.
func (ReMDM) Remasks() {}

// Plan adds the final step, which takes the most probable tokens. There may be more steps than
// positions.
func (ReMDM) Plan(steps, free int) (int, error) { return Vanilla{}.Plan(steps, free) }

// Time returns the time before the step.
func (ReMDM) Time(v *View) float64 { return evenTime(v.Step, v.Steps) }

// Needs the most probable tokens in the last step; before it positions are chosen at random first.
func (ReMDM) Needs(step, steps int) Need { return Need{Top: step >= steps} }

// Choose opens and closes any number of positions.
func (r ReMDM) Choose(v *View) (Opening, error) {
	if v.Step >= v.Steps {
		return v.candidates(0).open(v.Masked), nil
	}

	t := evenTime(v.Step, v.Steps)
	s := evenTime(v.Step+1, v.Steps)
	alphaT := 1 - t
	alphaS := 1 - s
	maxSigma := 1.0 // the largest for which the probabilities are valid
	if alphaT > 0 {
		maxSigma = min(1, (1-alphaS)/alphaT)
	}
	sigma := 0.0 // with conf there is one for each open position instead
	switch r.Strategy {
	case "", "cap":
		sigma = min(cmp.Or(r.Eta, 0.008), maxSigma)
	case "rescale":
		sigma = cmp.Or(r.Eta, 0.015) * maxSigma
	case "loop":
		alphaT, alphaS, sigma = loopAlphas(t, s, cmp.Or(r.Eta, 0.02))
	}

	openChance := (alphaS - (1-sigma)*alphaT) / (1 - alphaT)
	o := Opening{Positions: v.Ints(len(v.Masked))[:0], Close: v.Ints(len(v.Open))[:0]}
	for i, p := range v.Masked {
		if v.Uniform(i) < openChance {
			o.Positions = append(o.Positions, p)
		}
	}

	norm := 0.0
	for _, p := range v.Open {
		norm += math.Exp(-math.Exp(v.OpenedLogP[p]))
	}
	for _, p := range v.Open {
		closeChance := sigma
		if r.Strategy == "conf" {
			closeChance = maxSigma * math.Exp(-math.Exp(v.OpenedLogP[p])) / norm
		}
		if v.Rand.Uniform(p, ForClose) < closeChance {
			o.Close = append(o.Close, p)
		}
	}
	return o, nil
}

// loopAlphas returns alpha before and after a step and sigma, for the three phases: up to
// loopAlpha, remasking there, and on to 1.
func loopAlphas(t, s, eta float64) (alphaT, alphaS, sigma float64) {
	switch {
	case t > loopOn:
		return (1 - t) * loopAlpha / (1 - loopOn), (1 - s) * loopAlpha / (1 - loopOn), 0
	case t <= loopOff:
		return 1 - t*(1-loopAlpha)/loopOff, 1 - s*(1-loopAlpha)/loopOff, 0
	}
	return loopAlpha, loopAlpha, eta
}
