package samplers

import (
	"fmt"
	"slices"
)

// Gibbs corrects what vanilla's coins opened: between two of their steps it masks K positions, and
// opens each again with the probability alpha, the share that is open at that time, with a token of
// its marginal given all others. It is the corrector of Gourevitch et al. 2026 (arXiv 2605.22765,
// gibbs_corrector.py of the authors' program), which is published for uniform noise, carried over
// to masks.
//
// With K 1 and positions at random a sweep draws one coordinate from its law given the others, so
// texts of the law at that time keep it, which no rule that goes by doubt does. Two positions at
// once are drawn as if they were independent.
//
// Of N passes the first (N-1)/(1+Sweeps) steps, rounded down, are followed by sweeps, and none the
// last, so that there are N in all, as in the authors' program.
type Gibbs struct {
	K      int `param:"k 1..1048576 =1" help:"positions that a sweep draws again"`
	Sweeps int `param:"sweeps 1..1024 =1" help:"sweeps after a step, each a pass"`

	// By past, a position is doubted by minus log p of its token when it opened. Masks are not
	// chosen then.
	By  string  `param:"by random|past" help:"what a sweep takes: any, or what opened with a small probability"`
	Tau float64 `param:"tau 1e-6..1e6 =1" help:"past: temperature of the choice"`
}

// gibbsState has the positions that the next pass draws again.
type gibbsState struct{ chosen []int }

// NewState returns the state of a sequence of which no position is chosen.
func (Gibbs) NewState(int) any { return &gibbsState{} }

// Remasks marks that Gibbs closes positions.
func (Gibbs) Remasks() {}

// Plan adds the final step, which takes the most probable tokens. There may be more steps than
// positions.
func (Gibbs) Plan(steps, free int) (int, error) { return Vanilla{}.Plan(steps, free) }

// Needs the most probable tokens in the last step; before it positions are chosen first.
func (Gibbs) Needs(step, steps int) Need { return Need{Top: step >= steps} }

// Time returns the time of the text before a step: a sweep does not change it.
func (g Gibbs) Time(v *View) float64 {
	predictor, isSweep, predictors := g.place(v.Step, v.Steps)
	if isSweep {
		predictor++
	}
	return evenTime(predictor, predictors)
}

// place returns which of the predictor's steps a step is, from 1, or follows as a sweep, and how
// many the predictor has.
func (g Gibbs) place(step, steps int) (predictor int, isSweep bool, predictors int) {
	cycle := 1 + WithDefaults(g).Sweeps
	corrected := (steps - 1) / cycle // steps of the predictor with sweeps behind them
	predictors = steps - corrected*(cycle-1)
	if step > corrected*cycle {
		return step - corrected*(cycle-1), false, predictors
	}
	return (step-1)/cycle + 1, (step-1)%cycle > 0, predictors
}

// Choose opens positions by their coins, and closes those that the next pass draws again.
func (g Gibbs) Choose(v *View) (Opening, error) {
	if v.Step >= v.Steps {
		return v.candidates(0).open(v.Masked), nil
	}
	predictor, isSweep, predictors := g.place(v.Step, v.Steps)
	timeBefore := evenTime(predictor, predictors)
	timeAfter := evenTime(predictor+1, predictors)
	state := v.State.(*gibbsState)

	o := Opening{Positions: v.Ints(len(v.Masked))[:0]}
	for i, p := range v.Masked {
		chance := (timeBefore - timeAfter) / timeBefore
		if isSweep {
			chance = 0
			if slices.Contains(state.chosen, p) {
				chance = 1 - timeAfter
			}
		}
		if v.Uniform(i) < chance {
			o.Positions = append(o.Positions, p)
		}
	}

	state.chosen = nil
	if _, sweepFollows, _ := g.place(v.Step+1, v.Steps); sweepFollows {
		state.chosen = g.chooseDoubtful(v)
		g.maskChosen(v, &o, state.chosen)
	}
	return o, nil
}

// chooseDoubtful returns the positions that a sweep draws again.
func (g Gibbs) chooseDoubtful(v *View) []int {
	g = WithDefaults(g)
	positions := slices.Clone(v.Open)
	if g.By != "past" {
		positions = append(positions, v.Masked...)
	}
	slices.Sort(positions)
	keys := make([]float64, len(positions))
	for i, p := range positions {
		if g.By == "past" {
			keys[i] = -v.OpenedLogP[p] / g.Tau
		}
		keys[i] += Gumbel(v.Rand.Uniform(p, ForClose))
	}
	chosen := v.topOf(positions, min(g.K, len(positions)), func(i int) float64 { return keys[i] })
	return slices.Clone(chosen)
}

// maskChosen leaves chosen positions out of an opening, or closes them.
func (Gibbs) maskChosen(v *View, o *Opening, chosen []int) {
	isChosen := func(p int) bool { return slices.Contains(chosen, p) }
	o.Positions = slices.DeleteFunc(o.Positions, isChosen)
	for _, p := range v.Open {
		if isChosen(p) {
			o.Close = append(o.Close, p)
		}
	}
}

// Check returns an error for a temperature of a choice that has none.
func (g Gibbs) Check() error {
	if g.Tau != 0 && g.By != "past" {
		return fmt.Errorf("samplers: gibbs has tau %v, want none with by=random", g.Tau)
	}
	return nil
}
