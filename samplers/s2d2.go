package samplers

import (
	"math"
	"slices"
)

// S2D2 decodes block diffusion with fewer doubts (S2D2, arXiv 2603.25702, block_diffusion_generate
// of the authors' program): a pass drafts a block, and where that promises enough, a second one
// checks the first run of masks as a model with blocks of one position would see it: row by row,
// behind the drafted tokens. A drafted token stays if it is the most probable one there; the first
// that is not is replaced by that, and the run ends. The authors' program tosses coins instead.
//
// The promise is sum_k prod_(i<=k) exp(-H_i/log V), over the run's entropies H_i and V tokens; it
// must be Cost, the authors' cost and threshold together. Near 0 all is checked, and a block's
// text is what one position after the other gives behind the same blocks, which see themselves
// whole. Without a check, all opens that is more probable than Theta, at least the best. So it is
// where nothing can check: without reuse blocks, or where predictions are shifted.
type S2D2 struct {
	Theta float64 `param:"theta 1e-9..1 =0.85" help:"probability above which a token opens without a check"`
	Cost  float64 `param:"cost 1e-9..1e3 =1" help:"right tokens that a check must promise; near 0 all is checked"`
	ownPace
}

// ChecksRuns implements RunChecker.
func (S2D2) ChecksRuns() {}

// Needs tokens and entropies.
func (S2D2) Needs(int, int) Need { return Need{Top: true, Entropy: true} }

// Choose opens what is sure, or asks for a check.
func (s S2D2) Choose(v *View) (Opening, error) {
	s = WithDefaults(s)
	c := v.candidates(0)
	if !v.CanCheckRun || len(v.Masked) == 0 {
		return c.open(c.above(s.Theta, min(1, len(v.Masked)))), nil
	}

	run, promise := v.runPromise()
	if promise < s.Cost {
		return c.open(c.above(s.Theta, 1)), nil
	}
	second := &Second{Tokens: slices.Clone(v.Tokens), Run: slices.Clone(v.Masked[:run])}
	for i, p := range v.Masked {
		second.Tokens[p] = v.Arg[i]
	}
	second.Choose = func(v *View) (Opening, error) { return openChecked(v, second) }
	return Opening{Second: second}, nil
}

// runPromise returns the length of the first run of masks, at most MaxDraft, and how many of its
// tokens a check is expected to find right.
func (v *View) runPromise() (run int, promise float64) {
	allRight := 1.0 // the probability of all tokens so far
	for run < min(len(v.Masked), MaxDraft) && v.Masked[run] == v.Masked[0]+run {
		allRight *= math.Exp(-v.Entropy[run] / math.Log(float64(v.Outcomes)))
		promise += allRight
		run++
	}
	return run, promise
}

// openChecked opens the drafted tokens of a run up to the first that the check finds wrong, which
// is replaced by the check's token.
func openChecked(v *View, s *Second) (Opening, error) {
	token := make([]int32, len(s.Run))
	logP := make([]float64, len(s.Run))
	err := v.Visit(s.Run, func(i int, logits []float32) {
		logits = logits[:v.Outcomes]
		for t, l := range logits {
			if l > logits[token[i]] {
				token[i] = int32(t)
			}
		}
		logP[i] = float64(logits[token[i]]) - logSumExp(logits)
	})
	// The check's first token is right in any case, as all before it was open. Each further one is
	// right only if the drafted token before it, which the check saw, was.
	n := 0
	for n < len(s.Run) && (n == 0 || token[n-1] == s.Tokens[s.Run[n-1]]) {
		n++
	}
	return Opening{Positions: s.Run[:n], Tokens: token[:n], LogP: logP[:n]}, err
}
