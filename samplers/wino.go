package samplers

import (
	"math"
	"slices"
)

// WINO opens many tokens and masks doubtful ones again (Hong et al. 2025, "Wide-in, narrow-out",
// arXiv 2507.18578; decoding_wino of the authors' program). In a block with m masks it opens what
// is more probable than Wide, at most clamp(0.7m, 5, 20) positions and at least the best. If it
// opens two or more, tokens that were open before and have a probability below Narrow where their
// own position is masked are masked again, but fewer than the pass before opened: so it ends.
//
// The probability is that of the position's shadow, a second row in the same pass
// (Need.ShadowLogP). Where passes have no shadows, a second pass judges instead, which is another
// rule: what was open before is masked in it, and what opens now is in place.
type WINO struct {
	Wide        float64 `param:"wide 1e-9..1 =0.6" help:"probability above which a token opens"`
	Narrow      float64 `param:"narrow 1e-9..1 =0.9" help:"probability below which an open token is masked again"`
	Block       int     `param:"block 1..1048576 =128" help:"positions of a block"`
	Temperature float64 `param:"temperature 1e-3..1e3 0=none" help:"of the tokens; 0 takes the most probable ones"`
	ownPace
}

// winoFirst stands for the number that the pass before a block's first one opened.
const winoFirst = 30

// Judges marks that WINO closes positions and ends when nothing is masked.
func (WINO) Judges() {}

// Blocks implements Blocker.
func (w WINO) Blocks(free int) (n, size int) {
	return SemiAR{Block: WithDefaults(w).Block}.Blocks(free)
}

// NewState returns the number of positions that the last pass opened.
func (WINO) NewState(int) any { return new(int) }

// Needs tokens, and the judgement of open ones.
func (w WINO) Needs(int, int) Need {
	need := needTokens(w.Temperature)
	need.ShadowLogP = true
	return need
}

// Choose opens and closes positions.
func (w WINO) Choose(v *View) (Opening, error) {
	w = WithDefaults(w)
	c := v.candidates(w.Temperature)
	masks := len(v.Masked)
	wide := c.above(w.Wide, 1)
	wide = wide[:min(len(wide), max(int(float64(masks)*0.7), 5), max(masks, 1), 20)]

	lastOpened := v.State.(*int)
	openedBefore := *lastOpened
	if len(v.Open) == 0 || openedBefore == 0 {
		openedBefore = winoFirst
	}
	*lastOpened = len(wide)

	o := c.open(wide)
	if len(wide) < 2 || len(v.Open) == 0 {
		return o, nil
	}
	if v.OpenLogP != nil {
		o.Close = w.doubtful(v, v.OpenLogP, openedBefore)
		return o, nil
	}
	return w.judgeInSecondPass(v, o, openedBefore), nil
}

// doubtful returns the open positions to mask again, given the logarithms of their tokens'
// probabilities: fewer than openedBefore. w has its defaults filled in.
func (w WINO) doubtful(v *View, logP []float64, openedBefore int) []int {
	list := v.Ints(len(v.Open))[:0]
	for i, position := range v.Open {
		if math.Exp(logP[i]) < w.Narrow {
			list = append(list, position)
		}
	}
	if len(list) >= openedBefore {
		list = v.topOf(v.Open, openedBefore-1, func(i int) float64 { return -logP[i] })
		slices.Sort(list)
	}
	return list
}

// judgeInSecondPass asks for a second pass that judges what was open before o opens. The opening
// is copied, because memory of the view is valid during one call only.
func (w WINO) judgeInSecondPass(v *View, o Opening, openedBefore int) Opening {
	o.Positions = slices.Clone(o.Positions)
	o.Tokens = slices.Clone(o.Tokens)
	o.LogP = slices.Clone(o.LogP)

	second := &Second{Tokens: slices.Clone(v.Tokens)}
	for _, position := range v.Open {
		second.Tokens[position] = v.Mask
	}
	for j, position := range o.Positions {
		second.Tokens[position] = o.Tokens[j]
	}
	second.Choose = func(v *View) (Opening, error) {
		logP := make([]float64, len(v.Open))
		err := v.Visit(v.Open, func(i int, logits []float32) {
			token := v.Tokens[v.Open[i]]
			logP[i] = float64(logits[token]) - logSumExp(logits[:v.Outcomes])
		})
		o.Close = w.doubtful(v, logP, openedBefore)
		return o, err
	}
	return Opening{Second: second}
}

// logSumExp returns log sum exp of logits. The largest is taken out first, so that no exponential
// overflows.
func logSumExp(logits []float32) float64 {
	top := float64(slices.Max(logits))
	sum := 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	return top + math.Log(sum)
}
