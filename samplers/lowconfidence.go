package samplers

import "math"

// LowConfidence is LLaDA's sampler (Nie et al. 2025, "Large language diffusion models", algorithm
// "low-confidence remasking"; generate.py of the authors): it draws a token for every masked
// position and keeps the most probable ones. Tokens are drawn with the temperature but ranked by
// their probability without it.
type LowConfidence struct {
	Temperature float64 `param:"temperature 1e-3..1e3 0=none" help:"of the tokens; 0 takes the most probable ones"`
}

// Needs a token at every masked position.
func (l LowConfidence) Needs(int, int) Need { return needTokens(l.Temperature) }

// Choose opens the schedule's number of positions.
func (l LowConfidence) Choose(v *View) (Opening, error) {
	c := v.candidates(l.Temperature)
	return c.open(v.Top(v.Quota, c.score)), nil
}

// needTokens returns what the method candidates needs.
func needTokens(temperature float64) Need {
	if temperature == 0 {
		return Need{Top: true}
	}
	return Need{Draw: true, Power: 1 / temperature}
}

// candidates holds a token for every masked position, ranked by its probability.
type candidates struct {
	v     *View
	token []int32 // [masked]

	// score returns the probability of Masked[i]'s token, or its logarithm, whichever is at hand: it
	// is for comparing alone.
	score func(i int) float64

	// p returns the probability itself.
	p func(i int) float64
}

// candidates returns the most probable tokens at temperature 0, and otherwise those that were
// drawn.
func (v *View) candidates(temperature float64) candidates {
	if temperature == 0 {
		p := func(i int) float64 { return v.P1[i] }
		return candidates{v: v, token: v.Arg, score: p, p: p}
	}
	return candidates{
		v:     v,
		token: v.Token,
		score: func(i int) float64 { return v.LogP[i] },
		p:     func(i int) float64 { return math.Exp(v.LogP[i]) },
	}
}

// open opens positions with their tokens.
func (c candidates) open(positions []int) Opening {
	o := Opening{
		Positions: positions,
		Tokens:    c.v.Tokens32(len(positions)),
		LogP:      c.v.Floats(len(positions)),
	}
	for j, p := range positions {
		i := c.v.Index(p)
		o.Tokens[j] = c.token[i]
		o.LogP[j] = math.Log(c.p(i))
	}
	return o
}

// above returns the masked positions whose tokens have a probability above theta, the most probable
// first, and at least the minCount most probable ones.
func (c candidates) above(theta float64, minCount int) []int {
	ranked := c.v.Top(len(c.v.Masked), c.score)
	return c.v.firstWhile(ranked, minCount, func(i int) bool { return c.p(i) > theta })
}
