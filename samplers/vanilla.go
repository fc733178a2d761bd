package samplers

import (
	"cmp"
	"math"

	"unmask/internal/philox"
	"unmask/internal/race"
)

// Vanilla opens each masked position independently with probability (t-s)/t, as published with MDLM
// (Sahoo et al. 2024) and SDTT (Deschenaux and Gulcehre 2024). Times go from 1 to 1e-5 in N equal
// steps; a final step opens the rest with the most probable tokens.
//
// With Bits 32 the arithmetic is the authors' float32. At each masked position the sample is the
// argmax over the outcomes and the mask of q/(1e-10-log(u+1e-10)), where q_x = p(x)*(m(t)-m(s)),
// q_mask = m(s), m(t) = (1-1e-3)*t, and u is uniform with 24 bits. Such a coarse u biases which
// positions open (Zheng et al. 2024; Hayakawa et al. 2025, table 2).
//
// With Bits 64 (the default) the same race is computed in two parts: the mask wins with probability
// m(s)/m(t) whatever p is, and otherwise the token follows p. So one random number per position
// decides whether it opens, and the head runs only at the positions that open. The 1e-10 of the
// published expression in float64 changes these probabilities by less than 1e-8.
type Vanilla struct {
	Bits int `param:"bits 32|64 =64" help:"of the arithmetic: 32 as published, or 64"`
}

// vanillaEnd is the time of the last step.
const vanillaEnd = 1e-5

// Plan adds the final step, which takes the most probable tokens. There may be more steps than
// positions.
func (Vanilla) Plan(steps, free int) (int, error) {
	return cmp.Or(steps, free) + 1, nil
}

// Time returns the time before the step.
func (Vanilla) Time(v *View) float64 { return evenTime(v.Step, v.Steps) }

// evenTime falls from 1 to 1e-5 in steps-1 equal parts; the last step is at 1e-5.
func evenTime(step, steps int) float64 {
	return 1 - float64(step-1)*(1-vanillaEnd)/float64(max(steps-1, 1))
}

// Needs logits with 32 bits, nothing with 64, and the most probable tokens in the last step.
func (a Vanilla) Needs(step, steps int) Need {
	races := a.Bits == 32 && step < steps
	return Need{Top: step >= steps, LogSum: races, Logits: races}
}

// Choose opens any number of positions, perhaps none.
func (a Vanilla) Choose(v *View) (Opening, error) {
	if v.Step >= v.Steps {
		return v.candidates(0).open(v.Masked), nil
	}
	t := evenTime(v.Step, v.Steps)
	s := evenTime(v.Step+1, v.Steps)
	if a.Bits == 32 {
		return racePublished(v, float32(t), float32(s))
	}
	open := v.Ints(len(v.Masked))[:0]
	for i, p := range v.Masked {
		if v.Uniform(i)*t < t-s {
			open = append(open, p)
		}
	}
	return Opening{Positions: open}, nil
}

// WithTemperature refuses temperature 0 with Bits 32, whose race draws the tokens itself.
func (a Vanilla) WithTemperature(temperature float64) (any, float64, error) {
	if a.Bits == 32 {
		return refuseTemperature0(a, "vanilla(bits=32)", temperature)
	}
	return a, cmp.Or(temperature, 1), nil
}

// racePublished runs the race of MDLM and SDTT in float32: at each masked position the outcomes
// against the mask.
func racePublished(v *View, t, s float32) (Opening, error) {
	winner := v.Tokens32(len(v.Masked))
	logP := v.Floats(len(v.Masked))
	outcomes := v.Outcomes
	moveT := float32(1-1e-3) * t // m(t)
	moveS := float32(1-1e-3) * s
	err := v.Visit(v.Masked, func(i int, logits []float32) {
		position := v.Masked[i]
		maskTime := moveS / race.Time(v.Rand.Words(position, ForToken, outcomes/4)[outcomes%4])
		outcome, p := race.Winner(philox.Stream(v.Rand), position,
			logits[:min(outcomes, len(logits))], float32(v.LogSum[i]), moveT-moveS, maskTime)
		winner[i] = int32(outcome)
		logP[i] = math.Log(float64(p))
	})
	if err != nil {
		return Opening{}, err
	}
	return v.openWinners(winner, logP), nil
}

// openWinners opens the masked positions with a token other than race.NoWinner, at which the mask
// won.
func (v *View) openWinners(token []int32, logP []float64) Opening {
	n := len(token)
	o := Opening{Positions: v.Ints(n)[:0], Tokens: v.Tokens32(n)[:0], LogP: v.Floats(n)[:0]}
	for i, x := range token {
		if x != race.NoWinner {
			o.Positions = append(o.Positions, v.Masked[i])
			o.Tokens = append(o.Tokens, x)
			o.LogP = append(o.LogP, logP[i])
		}
	}
	return o
}
