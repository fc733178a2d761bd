package samplers

import (
	"fmt"

	"unmask/param"
)

// Greedy opens the positions that a sampler chooses with their most probable tokens: decoding at
// temperature 0, the usual setting of LLaDA, Dream, Fast-dLLM and others.
type Greedy struct {
	Inside Sampler `inside:"confidence"`
}

// Needs what the sampler inside needs, and the most probable token.
func (g Greedy) Needs(step, steps int) Need {
	return innerSampler(g).Needs(step, steps).Union(Need{Top: true})
}

// Choose returns the choice of the sampler inside with the most probable tokens.
func (g Greedy) Choose(v *View) (Opening, error) {
	o, err := innerSampler(g).Choose(v)
	if err != nil {
		return o, err
	}
	best := v.candidates(0).open(o.Positions)
	o.Tokens = best.Tokens
	o.LogP = best.LogP
	return o, nil
}

// Check returns an error if the sampler inside draws tokens itself, or has an exponent of draws:
// Greedy would throw away what it drew.
func (g Greedy) Check() error {
	in := innerSampler(g)
	if c, ok := in.(ChooseThenSample); ok && c.Gamma != 0 {
		return &param.Error{
			Name:   "gamma",
			Found:  param.Format(c.Gamma),
			Want:   "none: greedy takes the most probable tokens",
			Reason: param.NoEffect,
		}
	}
	if Is[DPLM](in) || in.Needs(1, 2).Draw {
		return fmt.Errorf("samplers: greedy around a sampler that draws tokens itself, want one that " +
			"chooses positions")
	}
	return nil
}
