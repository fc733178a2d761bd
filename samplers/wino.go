package samplers

import (
	"cmp"
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
	return SemiAR{Block: cmp.Or(w.Block, 128)}.Blocks(free)
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
	c, masks := v.candidates(w.Temperature), len(v.Masked)
	wide := c.above(cmp.Or(w.Wide, 0.6), 1)
	wide = wide[:min(len(wide), max(int(float64(masks)*0.7), 5), max(masks, 1), 20)]
	last := v.State.(*int)
	if len(v.Open) == 0 || *last == 0 {
		*last = winoFirst
	}
	o, before := c.open(wide), *last
	if *last = len(wide); len(wide) < 2 || len(v.Open) == 0 {
		return o, nil
	}
	if v.OpenLogP != nil {
		o.Close = w.doubtful(v, v.OpenLogP, before)
		return o, nil
	}
	return w.judge(v, o, before), nil
}

// doubtful returns the open positions to mask again, given the logarithms of their tokens'
// probabilities: fewer than `before`.
func (w WINO) doubtful(v *View, logP []float64, before int) []int {
	bad := v.Ints(len(v.Open))[:0]
	for i, at := range v.Open {
		if math.Exp(logP[i]) < cmp.Or(w.Narrow, 0.9) {
			bad = append(bad, at)
		}
	}
	if len(bad) >= before {
		bad = v.top(v.Open, before-1, func(i int) float64 { return -logP[i] })
		slices.Sort(bad)
	}
	return bad
}

// judge asks for a second pass.
func (w WINO) judge(v *View, o Opening, before int) Opening {
	o.Positions, o.Tokens, o.LogP = slices.Clone(o.Positions), slices.Clone(o.Tokens),
		slices.Clone(o.LogP)
	s := &Second{Tokens: slices.Clone(v.Tokens)}
	for _, at := range v.Open {
		s.Tokens[at] = v.Mask
	}
	for j, at := range o.Positions {
		s.Tokens[at] = o.Tokens[j]
	}
	s.Choose = func(v *View) (Opening, error) {
		logP := make([]float64, len(v.Open))
		err := v.Visit(v.Open, func(i int, logits []float32) {
			logP[i] = float64(logits[v.Tokens[v.Open[i]]]) - logSumExp(logits[:v.Outcomes])
		})
		o.Close = w.doubtful(v, logP, before)
		return o, err
	}
	return Opening{Second: s}
}

// logSumExp returns log sum exp of logits.
func logSumExp(logits []float32) float64 {
	top, sum := float64(slices.Max(logits)), 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	return top + math.Log(sum)
}
