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
	steps = cmp.Or(steps, (free+1)/2)
	return 2*steps + 1, nil
}

// NewState returns an empty state.
func (ThetaTrapezoidal) NewState(length int) any { return make([]outline, length) }

// times returns the start, the intermediate point and the end of the whole step.
func (s ThetaTrapezoidal) times(step, steps int) (t, between, end float64) {
	k := (step + 1) / 2
	t, end = evenTime(k, (steps-1)/2+1), evenTime(k+1, (steps-1)/2+1)
	return t, t - cmp.Or(s.Theta, 0.5)*(t-end), end
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
	before := v.State.([]outline)
	t, between, end := s.times(v.Step, v.Steps)
	if v.Step%2 == 0 {
		return s.second(v, before, t, between, end)
	}
	err := v.Visit(v.Masked, func(i int, logits []float32) {
		before[v.Masked[i]].keep(logits[:v.Outcomes], v.LogSum[i])
	})
	o := Opening{Positions: v.Ints(len(v.Masked))[:0]}
	open := 1 - math.Exp(-(t-between)/t)
	for i, p := range v.Masked {
		if v.Uniform(i) < open {
			o.Positions = append(o.Positions, p)
		}
	}
	return o, err
}

// second makes the second leap, with the extrapolated rates.
func (s ThetaTrapezoidal) second(v *View, before []outline, t, between, end float64) (Opening,
	error) {
	theta := cmp.Or(s.Theta, 0.5)
	a1 := 1 / (2 * theta * (1 - theta))
	now, then := a1/between, (a1-1)/t
	n := len(v.Masked)
	token, logP := v.Tokens32(n), v.Floats(n)
	err := v.Visit(v.Masked, func(i int, logits []float32) {
		token[i] = race.NoWinner
		position := v.Masked[i]
		b := &before[position]
		p := func(x int32) float64 { return math.Exp(float64(logits[x]) - v.LogSum[i]) }
		sum, restNow, restBefore := 0.0, 1.0, 1.0
		for j, x := range b.token {
			restNow, restBefore = restNow-p(x), restBefore-b.p[j]
			sum += max(0, now*p(x)-then*b.p[j])
		}
		others := max(0, now-then*max(restBefore, 0)/max(restNow, 1e-12))
		sum += others * max(restNow, 0)
		if v.Uniform(i) >= 1-math.Exp(-(between-end)*sum) {
			return
		}
		target := v.Rand.Uniform(position, ForToken) * sum
		take := func(x int32, rate float64) {
			if rate > 0 && target >= 0 {
				token[i], logP[i] = x, float64(logits[x])-v.LogSum[i]
				target -= rate
			}
		}
		for j, x := range b.token { // the remembered outcomes first, then the others in order
			take(x, max(0, now*p(x)-then*b.p[j]))
		}
		for _, x := range b.token {
			logits[x] = float32(math.Inf(-1))
		}
		for x := int32(0); int(x) < v.Outcomes && target >= 0; x++ {
			take(x, others*p(x))
		}
	})
	if err != nil {
		return Opening{}, err
	}
	return v.won(token, logP), nil
}

// WithTemperature refuses temperature 0: both leaps draw tokens from rates.
func (s ThetaTrapezoidal) WithTemperature(temperature float64) (any, float64, error) {
	return never0(s, "theta-trapezoidal", temperature)
}
