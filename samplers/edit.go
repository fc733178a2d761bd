package samplers

import (
	"cmp"
	"math"
)

// Edit is LLaDA2.1's sampler (Bie et al. 2026, "LLaDA2.1"; the loop as in dLLM). Every step opens
// all tokens that are more probable than Theta, at least the most probable one. It also replaces
// every token that it opened earlier by the most probable one, if that is more probable than Edit.
// A block ends when nothing is masked and nothing changes, or Post steps after its last mask. In a
// run without blocks (generate.Blocks) nothing is replaced. With a temperature tokens are drawn, at
// masked and at open positions, and their own probabilities count (BlockRefinementScheduler of
// diffusers).
type Edit struct {
	Theta float64 `param:"theta 1e-9..1 =0.9" help:"probability above which a token is kept"`
	// the authors' speed mode has 0 to 0.5
	Edit        float64 `param:"edit 1e-9..1 =0.9" help:"probability above which an open token is replaced"`
	Post        int     `param:"post 1..1024 =16" help:"steps of a block after its last mask, at most"`
	Temperature float64 `param:"temperature 1e-3..1e3 0=none" help:"of the tokens; 0 takes the most probable ones"`
	ownPace
}

// Edits returns the most steps that a block can take after its last mask.
func (e Edit) Edits() int { return cmp.Or(e.Post, 16) }

// Needs a token at every masked and open position.
func (e Edit) Needs(int, int) Need {
	need := needTokens(e.Temperature)
	need.OpenTop, need.OpenDraw = need.Top, need.Draw
	return need
}

// Choose opens and replaces tokens.
func (e Edit) Choose(v *View) (Opening, error) {
	c := v.candidates(e.Temperature)
	o := c.open(c.above(cmp.Or(e.Theta, 0.9), min(1, len(v.Masked))))
	o.Replace, o.Replacement = v.Ints(len(v.Open))[:0], v.Tokens32(len(v.Open))[:0]
	for i, p := range v.Open {
		token, sure := int32(0), 0.0
		if e.Temperature == 0 {
			token, sure = v.OpenArg[i], v.OpenP1[i]
		} else {
			token, sure = v.OpenToken[i], math.Exp(v.OpenTokenLogP[i])
		}
		if sure > cmp.Or(e.Edit, 0.9) && token != v.Tokens[p] {
			o.Replace, o.Replacement = append(o.Replace, p), append(o.Replacement, token)
		}
	}
	return o, nil
}
