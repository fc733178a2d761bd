package samplers

import (
	"cmp"
	"fmt"

	"unmask/param"
)

// Greedy opens the positions that a sampler chooses with their most probable tokens: decoding at
// temperature 0, the usual setting of LLaDA, Dream, Fast-dLLM and others.
type Greedy struct {
	Inside Sampler `inside:"confidence"`
}

func (g Greedy) inside() Sampler {
	return cmp.Or[Sampler](g.Inside, ChooseThenSample{Order: Confidence{}})
}

// Needs what the sampler inside needs, and the most probable token.
func (g Greedy) Needs(step, steps int) Need {
	return g.inside().Needs(step, steps).With(Need{Top: true})
}

// Choose returns the choice of the sampler inside with the most probable tokens.
func (g Greedy) Choose(v *View) (Opening, error) {
	o, err := g.inside().Choose(v)
	if err == nil {
		v.likeliest(&o)
	}
	return o, err
}

// Check returns an error if the sampler inside draws tokens itself, or has an exponent of draws.
func (g Greedy) Check() error {
	if c, ok := g.inside().(ChooseThenSample); ok && c.Gamma != 0 {
		return &param.Error{Name: "gamma", Found: param.Format(c.Gamma),
			Want: "none: greedy takes the most probable tokens", Reason: param.NoEffect}
	}
	if _, dplm := As[DPLM](g.inside()); dplm || g.inside().Needs(1, 2).Draw {
		return fmt.Errorf("samplers: greedy around a sampler that draws tokens itself, want one that " +
			"chooses positions")
	}
	return nil
}

// Tempered refuses every temperature but 0.
func (g Greedy) Tempered(temperature float64) (any, float64, error) {
	return only0(g, "greedy", temperature)
}
