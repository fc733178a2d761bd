package samplers

// Apart opens confident positions of which no two are neighbours (the demo of Liquid AI's
// LFM2.5-Encoder-350M-Diffusion, 2026): marginals say nothing of how neighbours go together. In
// falling order of the probability of their tokens it takes the first position, and each that
// reaches Theta or that the quota still asks for, unless a neighbour was taken in this step. What
// then is missing of the quota is taken whatever stands beside it.
//
// The authors' quota is of the schedule rest, and blocks are around it: semi-ar(apart, block=16)
// schedule=rest.
type Apart struct {
	Theta       float64 `param:"theta 1e-9..1 =0.9" help:"probability that is enough"`
	Temperature float64 `param:"temperature 1e-3..1e3 0=none" help:"of the tokens; 0 takes the most probable ones"`
}

// Needs a token at every masked position.
func (a Apart) Needs(int, int) Need { return needTokens(a.Temperature) }

// Choose opens the positions, the most probable tokens first.
func (a Apart) Choose(v *View) (Opening, error) {
	theta := WithDefaults(a).Theta
	c := v.candidates(a.Temperature)
	ranked := v.Top(len(v.Masked), c.score)
	opensNow := v.Ints(len(v.Tokens)) // 1 where a position opens in this step
	chosen := v.Ints(len(ranked))[:0]
	take := func(p int) {
		opensNow[p] = 1
		chosen = append(chosen, p)
	}
	for _, p := range ranked {
		isEnough := c.p(v.Index(p)) >= theta || len(chosen) < v.Quota
		if len(chosen) == 0 || isEnough && !v.hasNeighbour(opensNow, p) {
			take(p)
		}
	}
	for _, p := range ranked {
		if len(chosen) < v.Quota && opensNow[p] == 0 {
			take(p)
		}
	}
	return c.open(chosen), nil
}

// hasNeighbour reports whether a position beside p, or above or below it in an image, opens in this
// step.
func (v *View) hasNeighbour(opensNow []int, p int) bool {
	width := len(v.Tokens)
	if len(v.Shape) == 2 {
		width = v.Shape[1]
	}
	isTaken := func(q int) bool { return q >= 0 && q < len(opensNow) && opensNow[q] == 1 }
	return p%width > 0 && isTaken(p-1) || (p+1)%width > 0 && isTaken(p+1) ||
		isTaken(p-width) || isTaken(p+width)
}

// Rest opens ceil(masked/left) of the positions that are masked now, where `left` steps are left: a
// step that opened more leaves less to each later one (the demo of LFM2.5-Encoder-350M-Diffusion).
var Rest Schedule = &restFormula{formula{"rest", func(step float64, steps, length int) int {
	masked := length
	for left := steps; left > max(steps-int(step), 0); left-- {
		masked -= (masked + left - 1) / left
	}
	return length - masked
}}}

type restFormula struct{ formula }

// Share implements Follower.
func (*restFormula) Share(masked, left int) int { return (masked + left - 1) / left }
