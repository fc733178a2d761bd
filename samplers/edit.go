package samplers

import "math"

// Edit is LLaDA2.1's sampler (Bie et al. 2026, "LLaDA2.1"; the loop as in dLLM). Every step opens
// all tokens that are more probable than Theta, at least the most probable one. It also replaces
// every token that it opened earlier by the most probable one, if that is more probable than Edit.
// A block ends when nothing is masked and nothing changes, or Post steps after its last mask. In a
// run without blocks (generate.Blocks) nothing is replaced. With a temperature tokens are drawn, at
// masked and at open positions, and their own probabilities count (BlockRefinementScheduler of
// diffusers).
type Edit struct {
	Theta float64 `param:"theta 1e-9..1 =0.9" help:"probability above which a token is kept"`
	// Edit is 0 to 0.5 in the authors' speed mode.
	Edit        float64 `param:"edit 1e-9..1 =0.9" help:"probability above which an open token is replaced"`
	Post        int     `param:"post 1..1024 =16" help:"steps of a block after its last mask, at most"`
	Temperature float64 `param:"temperature 1e-3..1e3 0=none" help:"of the tokens; 0 takes the most probable ones"`
	ownPace
}

// Edits returns the most steps that a block can take after its last mask.
func (e Edit) Edits() int { return WithDefaults(e).Post }

// Needs a token at every masked and open position.
func (e Edit) Needs(int, int) Need {
	need := needTokens(e.Temperature)
	need.OpenTop = need.Top
	need.OpenDraw = need.Draw
	return need
}

// Choose opens and replaces tokens.
func (e Edit) Choose(v *View) (Opening, error) {
	e = WithDefaults(e)
	c := v.candidates(e.Temperature)
	o := c.open(c.above(e.Theta, min(1, len(v.Masked))))

	o.Replace = v.Ints(len(v.Open))[:0]
	o.Replacement = v.Tokens32(len(v.Open))[:0]
	for i, p := range v.Open {
		token := int32(0)
		probability := 0.0
		if e.Temperature == 0 {
			token = v.OpenArg[i]
			probability = v.OpenP1[i]
		} else {
			token = v.OpenToken[i]
			probability = math.Exp(v.OpenTokenLogP[i])
		}
		if probability > e.Edit && token != v.Tokens[p] {
			o.Replace = append(o.Replace, p)
			o.Replacement = append(o.Replacement, token)
		}
	}
	return o, nil
}
