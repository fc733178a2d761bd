package samplers

import "unmask/param"

// Edit is LLaDA2.1's sampler (Bie et al. 2026, "LLaDA2.1"; the loop as dLLM has it): every step
// opens all tokens that are more probable than Theta, at least the most probable one, and puts the
// most probable token in the place of every other that it opened before where that token is more
// probable than Edit. A block ends when nothing is masked and nothing changes, or Post steps after
// its last mask. Where a run has no blocks (generate.Blocks) nothing is replaced.
type Edit struct {
	Theta float64 // 0 means 0.9
	Edit  float64 // 0 means 0.9; 0 to 0.5 in the authors' speed mode
	Post  int     // 0 means 16
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
	},
}

// Edits returns how many steps a block may take after its last mask.
func (e Edit) Edits() int {
	if e.Post == 0 {
		return 16
	}
	return e.Post
}

// Plan takes at most one step a position.
func (Edit) Plan(_, free int) (int, error) { return free, nil }

// SelfPaced marks that steps and schedules do not act.
func (Edit) SelfPaced() {}

// Needs the most probable tokens at masked and open positions.
func (Edit) Needs(int, int) Need { return Need{Top: true, OpenTop: true} }

// Choose opens and replaces.
func (e Edit) Choose(v *View) (Opening, error) {
	c := v.candidates(0)
	o := c.open(c.above(orDefault(e.Theta, 0.9), min(1, len(v.Masked))))
	o.Replace, o.Replacement = v.Ints(len(v.Open))[:0], v.Tokens32(len(v.Open))[:0]
	for i, p := range v.Open {
		if v.OpenP1[i] > orDefault(e.Edit, 0.9) && v.OpenArg[i] != v.Tokens[p] {
			o.Replace, o.Replacement = append(o.Replace, p), append(o.Replacement, v.OpenArg[i])
		}
	}
	return o, nil
}

// Uncached returns why there is no second stage.
func (Edit) Uncached() string { return "edit has the tokens before a second stage could" }

// String returns the text that Parse reads.
func (e Edit) String() string { return Text(e) }
