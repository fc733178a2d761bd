package samplers

import (
	"cmp"
	"math"

	"unmask/param"
)

// Edit is LLaDA2.1's sampler (Bie et al. 2026, "LLaDA2.1"; the loop as in dLLM). Every step opens
// all tokens that are more probable than Theta, at least the most probable one. It also replaces
// every token that it opened earlier by the most probable one, if that is more probable than Edit.
// A block ends when nothing is masked and nothing changes, or Post steps after its last mask. In a
// run without blocks (generate.Blocks) nothing is replaced. With a temperature tokens are drawn, at
// masked and at open positions, and their own probabilities count (BlockRefinementScheduler of
// diffusers).
type Edit struct {
	Theta       float64 // 0 means 0.9
	Edit        float64 // 0 means 0.9; the authors' speed mode has 0 to 0.5
	Post        int     // 0 means 16
	Temperature float64 // of the tokens; 0: the most probable
	ownPace
}

var editRule = Rule[Edit]{
	Name: "edit", Line: "all that are confident enough, and changes of what was opened",
	Paper: "Bie et al. 2026, LLaDA2.1",
	Params: []Param[Edit]{
		Number(func(e *Edit) *float64 { return &e.Theta }, confidentEnough),
		Number(func(e *Edit) *float64 { return &e.Edit },
			param.Param{Name: "edit", Min: 1e-9, Max: 1, Default: "0.9",
				Help: "probability above which another token takes an open one's place"}),
		Whole(func(e *Edit) *int { return &e.Post },
			param.Param{Name: "post", Min: 1, Max: 1 << 10, Default: "16",
				Help: "steps of a block after its last mask, at most"}),
		Number(func(e *Edit) *float64 { return &e.Temperature }, tokenTemperature),
	},
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

// Tempered draws from the tempered marginals and compares their probabilities with Theta and Edit.
func (e Edit) Tempered(temperature float64) (any, float64, error) {
	marginals, err := drawTempered(&e.Temperature, temperature, "edit")
	return e, marginals, err
}

// Uncached returns why there can be no second stage.
func (Edit) Uncached() string { return "edit has the tokens before a second stage could" }
