package samplers

import (
	"math"

	"unmask/backend/rank"
)

// HaltonMaskGIT is the sampler of Halton-MaskGIT (Besnier et al. 2025, Sampler/halton_sampler.py).
// Positions follow Halton's order; Roll rotates it by a random number of places for each sequence.
// Tokens are drawn from p^gamma, with gamma rising linearly from First to Last. Its schedule is
// arccos.
//
// The authors' program reads an option sched_pow but never uses it, so it is left out.
type HaltonMaskGIT struct {
	First float64 `param:"first 1e-3..1e3 =1" help:"gamma of the first step"`
	Last  float64 `param:"last 1e-3..1e3 =1" help:"gamma of the last step"`
	Warm  int     `param:"warm 0..1048576 =0" help:"steps at the beginning whose gamma is halved"`
	Roll  string  `param:"roll on|off" help:"turn the order by a random number of places"`
}

// Needs nothing: positions are chosen first.
func (HaltonMaskGIT) Needs(int, int) Need { return Need{} }

// gamma returns the exponent of a step.
func (h HaltonMaskGIT) gamma(step, steps int) float64 {
	h = WithDefaults(h)
	gamma := h.First
	if steps > 1 {
		gamma += (h.Last - gamma) * float64(step-1) / float64(steps-1)
	}
	if step <= h.Warm {
		gamma /= 2
	}
	return gamma
}

// Choose opens the next positions of the order.
func (h HaltonMaskGIT) Choose(v *View) (Opening, error) {
	order := HaltonOrder(v.Shape...)
	offset := 0
	if h.Roll != "off" {
		// The step is 0 whatever the current one is, because a sequence keeps its offset.
		offset = int(math.Floor(v.Rand.At(0).Uniform(0, ForSetup) * float64(len(order))))
	}

	isMasked := v.Ints(len(v.Tokens)) // 1 where masked
	for _, p := range v.Masked {
		isMasked[p] = 1
	}
	o := Opening{Positions: v.Ints(v.Quota)[:0], Power: h.gamma(v.Step, v.Steps)}
	for i := 0; i < len(order) && len(o.Positions) < v.Quota; i++ {
		p := int(order[(i+offset)%len(order)])
		if isMasked[p] == 1 {
			o.Positions = append(o.Positions, p)
		}
	}
	return o, nil
}

// Ranking ranks by the order, if it is the same for all sequences.
func (h HaltonMaskGIT) Ranking(step, steps int, shape []int) (Ranking, bool) {
	r := rankBy(rank.ByOrder)
	r.Order = HaltonOrder(shape...)
	r.Power = h.gamma(step, steps)
	return r, h.Roll == "off"
}
