package samplers

import (
	"cmp"
	"fmt"
	"math"
)

// ReMDM masks open positions again, with a probability sigma per step, during vanilla sampling
// (Wang et al. 2025, "Remasking discrete diffusion models with inference-time scaling"; formulas of
// equation 5 and section 4, constants of the authors' code). With alpha = 1-t, a masked position
// opens with probability (alpha_s - (1-sigma)*alpha_t)/(1-alpha_t).
//
// The Psi-samplers (arXiv 2602.21185, _psi_update of the authors' program) mix two laws at every
// position: with the weight kappa the posterior, which never masks again, and with 1-kappa fresh
// noise around the predicted text. On masks that is
// sigma = (1-kappa)*(1-alpha_s), which makes them this rule with other strategies: psi has a
// constant kappa, and constant a sigma that never exceeds that of kappa 0. Both act between two
// shares of the steps, as the authors' scripts have it (kappa 0.99 in the first 90 %). Their
// max-capped modes are cap but for the bound in the last few steps; their rescaled mode multiplies
// by eta twice, which is not offered.
type ReMDM struct {
	Strategy string `param:"strategy cap|rescale|conf|loop|constant|psi" help:"how the chance of masking again follows the step"`

	Eta float64 `param:"eta 1e-9..1" help:"strength of all strategies but conf and psi; without, 0.008, and 0.015 and 0.02 of rescale and loop"`

	// Kappa 1 never masks again. Near 0 every position is drawn anew in every step.
	Kappa float64 `param:"kappa 1e-9..1 =0.99" help:"psi: the share of the posterior"`

	From float64 `param:"from 0..1 =0" help:"constant and psi: share of the steps before positions are masked again"`
	To   float64 `param:"to 1e-9..1 =1" help:"constant and psi: share of the steps after which none is masked again"`

	Noise string `param:"noise linear|cosine" help:"how many are open at a time; cosine opens few at first"`
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

// Time returns the time before the step, which is the share of masks then.
func (r ReMDM) Time(v *View) float64 {
	t := evenTime(v.Step, v.Steps)
	if r.Noise == "cosine" {
		return 1 - r.openShare(t)
	}
	return t
}

// openShare returns alpha, the share of positions that is open at a time.
func (r ReMDM) openShare(t float64) float64 {
	if r.Noise == "cosine" {
		return 1 - math.Cos(math.Pi/2*(1-t))
	}
	return 1 - t
}

// Needs the most probable tokens in the last step; before it positions are chosen at random first.
func (ReMDM) Needs(step, steps int) Need { return Need{Top: step >= steps} }

// Choose opens and closes any number of positions.
func (r ReMDM) Choose(v *View) (Opening, error) {
	if v.Step >= v.Steps {
		return v.candidates(0).open(v.Masked), nil
	}

	t := evenTime(v.Step, v.Steps)
	s := evenTime(v.Step+1, v.Steps)
	alphaT := r.openShare(t)
	alphaS := r.openShare(s)
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
	case "constant", "psi":
		if r.acts(v.Step, v.Steps) {
			sigma = r.psiSigma(alphaS)
		}
	}

	openChance := (alphaS - (1-sigma)*alphaT) / (1 - alphaT)
	o := Opening{Positions: v.Ints(len(v.Masked))[:0], Close: v.Ints(len(v.Open))[:0]}
	for i, p := range v.Masked {
		if v.Uniform(i) < openChance {
			o.Positions = append(o.Positions, p)
		}
	}

	// With conf the chance of masking again is shared out by exp(-p), where p is the probability that
	// a position's token had when it opened: what was unsure then goes first.
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

// acts reports whether a step is between From and To, whose shares of all steps are rounded as the
// authors' program rounds them.
func (r ReMDM) acts(step, steps int) bool {
	r = WithDefaults(r)
	first := math.RoundToEven(r.From * float64(steps))
	count := math.RoundToEven((r.To - r.From) * float64(steps))
	n := float64(step - 1)
	return n >= first && n < first+count
}

// psiSigma returns sigma of the strategies constant and psi, given alpha after the step.
func (r ReMDM) psiSigma(alphaS float64) float64 {
	if r.Strategy == "psi" {
		return (1 - WithDefaults(r).Kappa) * (1 - alphaS)
	}
	return min(cmp.Or(r.Eta, 0.008), 1-alphaS)
}

// Check returns an error for a parameter of another strategy.
func (r ReMDM) Check() error {
	strategy := cmp.Or(r.Strategy, "cap")
	isPsi := strategy == "psi" || strategy == "constant"
	switch {
	case r.Eta != 0 && strategy == "psi":
		return fmt.Errorf("samplers: remdm has eta %v, want none with psi, which has kappa", r.Eta)
	case r.Kappa != 0 && strategy != "psi":
		return fmt.Errorf("samplers: remdm has kappa %v, want none with %s", r.Kappa, strategy)
	case (r.From != 0 || r.To != 0) && !isPsi:
		return fmt.Errorf("samplers: remdm has from or to, want none with %s", strategy)
	case r.From >= WithDefaults(r).To:
		return fmt.Errorf("samplers: remdm has from %v, want less than its to, %v", r.From,
			WithDefaults(r).To)
	case r.Noise == "cosine" && strategy == "loop":
		return fmt.Errorf("samplers: remdm has cosine noise, want linear with loop, which has a path " +
			"of its own")
	}
	return nil
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
