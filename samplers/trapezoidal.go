package samplers

import (
	"cmp"
	"math"

	"unmask/internal/race"
)

// ThetaTrapezoidal is a solver of second order with two evaluations a step (Ren et al. 2025,
// "Fast solvers for discrete diffusion models: theory and applications of high-order
// algorithms"). From t to s = t-d, with rates mu_t(x) = p(x)/t at masked positions:
//
//   - leap theta*d with mu_t;
//   - from there, leap (1-theta)*d with (a1*mu* - a2*mu_t)+, where mu* is the rate at the point
//     in between, a1 = 1/(2 theta (1-theta)) and a2 = a1 - 1.
//
// A leap of h opens a position with probability 1-exp(-h*sum of rates). Positions that are masked
// in the end are drawn from p. Of mu_t the 64 most probable outcomes are remembered; the others are
// assumed to keep their relative shares.
type ThetaTrapezoidal struct {
	Theta float64 `param:"theta 0.01..0.99 =0.5" help:"part of a step before the point in between"`
}

// Plan takes two steps of the loop for each step asked for, and one at the end.
func (ThetaTrapezoidal) Plan(steps, free int) (int, error) {
	return 2*cmp.Or(steps, (free+1)/2) + 1, nil
}

// NewState returns an empty state.
func (ThetaTrapezoidal) NewState(length int) any { return make([]outline, length) }

// times returns the start, the intermediate point and the end of the whole step.
func (s ThetaTrapezoidal) times(step, steps int) (t, between, end float64) {
	whole := (step + 1) / 2
	wholeSteps := (steps-1)/2 + 1
	t = evenTime(whole, wholeSteps)
	end = evenTime(whole+1, wholeSteps)
	return t, t - WithDefaults(s).Theta*(t-end), end
}

// Time returns the time of the step's evaluation.
func (s ThetaTrapezoidal) Time(v *View) float64 {
	if v.Step >= v.Steps {
		return vanillaEnd
	}
	t, between, _ := s.times(v.Step, v.Steps)
	if v.Step%2 == 1 {
		return t
	}
	return between
}

// Needs logits, except in the last step.
func (ThetaTrapezoidal) Needs(step, steps int) Need {
	return Need{LogSum: step < steps, Logits: step < steps}
}

// Choose makes the step's leap.
func (s ThetaTrapezoidal) Choose(v *View) (Opening, error) {
	if v.Step >= v.Steps {
		return Opening{Positions: v.Masked}, nil
	}
	outlines := v.State.([]outline)
	t, between, end := s.times(v.Step, v.Steps)
	if v.Step%2 == 0 {
		return s.leapToEnd(v, outlines, t, between, end)
	}

	err := v.Visit(v.Masked, func(i int, logits []float32) {
		outlines[v.Masked[i]].keep(logits[:v.Outcomes], v.LogSum[i])
	})
	o := Opening{Positions: v.Ints(len(v.Masked))[:0]}
	openChance := 1 - math.Exp(-(t-between)/t)
	for i, p := range v.Masked {
		if v.Uniform(i) < openChance {
			o.Positions = append(o.Positions, p)
		}
	}
	return o, err
}

// leapToEnd makes the second leap, with the extrapolated rates. outlines are the marginals of the
// first one, [length].
func (s ThetaTrapezoidal) leapToEnd(v *View, outlines []outline, t, between, end float64) (Opening,
	error) {
	theta := WithDefaults(s).Theta
	a1 := 1 / (2 * theta * (1 - theta))
	token := v.Tokens32(len(v.Masked))
	logP := v.Floats(len(v.Masked))
	err := v.Visit(v.Masked, func(i int, logits []float32) {
		position := v.Masked[i]
		r := extrapolatedRates{
			factorNow:    a1 / between,
			factorBefore: (a1 - 1) / t,
			logits:       logits[:v.Outcomes],
			logSum:       v.LogSum[i],
			before:       &outlines[position],
		}
		token[i] = race.NoWinner
		sum, unlistedRate := r.sum()
		if v.Uniform(i) >= 1-math.Exp(-(between-end)*sum) {
			return
		}
		token[i], logP[i] = r.pick(v.Rand.Uniform(position, ForToken)*sum, unlistedRate)
	})
	if err != nil {
		return Opening{}, err
	}
	return v.openWinners(token, logP), nil
}

// extrapolatedRates are those of one position's outcomes in the second leap: factorNow*p(x) -
// factorBefore*p_before(x), at least 0.
type extrapolatedRates struct {
	factorNow    float64
	factorBefore float64
	logits       []float32 // [outcomes]; pick changes them
	logSum       float64
	before       *outline
}

// p returns the probability of an outcome now.
func (r *extrapolatedRates) p(outcome int32) float64 {
	return math.Exp(float64(r.logits[outcome]) - r.logSum)
}

// remembered returns the rate of the j-th outcome of the outline.
func (r *extrapolatedRates) remembered(j int) float64 {
	return max(0, r.factorNow*r.p(r.before.token[j])-r.factorBefore*r.before.p[j])
}

// sum returns the sum of all rates, and the rate of an outcome that is not remembered as a multiple
// of its probability.
func (r *extrapolatedRates) sum() (sum, unlistedRate float64) {
	restNow := 1.0
	restBefore := 1.0
	for j, x := range r.before.token {
		restNow -= r.p(x)
		restBefore -= r.before.p[j]
		sum += r.remembered(j)
	}
	unlistedRate = max(0, r.factorNow-r.factorBefore*max(restBefore, 0)/max(restNow, 1e-12))
	sum += unlistedRate * max(restNow, 0)
	return sum, unlistedRate
}

// pick returns the outcome at which the rates, added up, exceed target, and its log p: the
// remembered outcomes come first, then the others in order. By rounding the sum may stay below the
// target; then it is the last outcome with a rate.
func (r *extrapolatedRates) pick(target, unlistedRate float64) (token int32, logP float64) {
	token = race.NoWinner
	take := func(x int32, rate float64) {
		if rate > 0 && target >= 0 {
			token = x
			logP = float64(r.logits[x]) - r.logSum
			target -= rate
		}
	}
	for j, x := range r.before.token {
		take(x, r.remembered(j))
	}
	for _, x := range r.before.token {
		r.logits[x] = float32(math.Inf(-1)) // its rate is counted
	}
	for x := int32(0); int(x) < len(r.logits) && target >= 0; x++ {
		take(x, unlistedRate*r.p(x))
	}
	return token, logP
}

// WithTemperature refuses temperature 0: both leaps draw tokens from rates.
func (s ThetaTrapezoidal) WithTemperature(temperature float64) (any, float64, error) {
	return refuseTemperature0(s, "theta-trapezoidal", temperature)
}
