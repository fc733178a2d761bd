package generate

import (
	"slices"

	"unmask/model"
)

// loop decides what each step of one sequence works on. Kinds are whole.go, in which any position
// may open (or any of a block of the sampler's), blocks.go, block diffusion, causal.go and
// speculate.go, where final tokens are computed causally, and grow.go, where holes grow. The pool
// does the rest in the same way for all kinds: it puts sequences into passes, calls samplers,
// draws tokens and keeps count. Sequences share a pass whatever their loops, if their networks are
// the same.
//
// In each step the pool calls nextSpan and quota. If the step needs a pass, it then calls
// appendPartialRows (only if span.partial is set) and recordPass, and when the sampler has chosen,
// checkOpening. When the tokens are in place it calls advance. A loop embeds its *member and reads
// the step's state from member.step.
//
// To add a kind of loop:
//
//  1. Write a file with a type that has the six methods; appendPartialRows and checkOpening may be
//     those of member, for what is computed causally. What depends on the recipe alone is computed
//     once and kept in the task (see blockPlan); the loop holds what changes.
//  2. Choose it in task.chooseLoop, which also sets a bound on its steps. A recipe that it cannot
//     run is refused in Recipe.check.
//
// What a loop may do beyond these two:
//
//   - Use different networks in different steps: nextSpan sets span.network, or for a model.Feeder
//     span.causal and span.feeding.
//   - Draft tokens that nobody sees: a span that skips the sampler, and what passes ask of a
//     specLoop.
//   - Compute a window of the sequence: appendPartialRows appends its rows, and recordPass records
//     only the tokens whose keys and values are final.
//   - Change the sequence's length: advance replaces Tokens, past and the member's layout (a copy
//     of its own, not the task's) and corrects maskedLeft. The pool must allow the greatest length.
//   - Go on with nothing masked: member.needsStep.
type loop interface {
	// nextSpan returns the span of the next step. The pool calls it only while a position is masked
	// or member.needsStep is true.
	nextSpan() span

	// quota returns the number of positions that the schedule opens, at most len(step.masked).
	quota() int

	// appendPartialRows appends the rows of a partial pass, ascending. Position p is row base+p.
	appendPartialRows(rows []int32, base int) []int32

	// recordPass counts the work of the step's pass and sets member.cached to the tokens that the
	// keys and values in the cache were computed from.
	recordPass()

	// checkOpening returns an error for a choice that the loop does not allow. The pool has already
	// checked that positions and tokens are in range.
	checkOpening() error

	// advance prepares the loop for the next step, and may open further positions with fillMasked.
	advance()
}

// reuseLoop returns a pointer to value, the start of a loop. It uses the memory of old if that is a
// loop of the same type, so that a pool whose sequences come and go does not allocate loops.
func reuseLoop[T any](old loop, value T) *T {
	l, ok := any(old).(*T)
	if !ok {
		l = new(T)
	}
	*l = value
	return l
}

// span is the part of a sequence that a step works on. A loop's nextSpan makes it.
type span struct {
	network *network

	// partial means that the pass computes the rows of appendPartialRows alone.
	partial bool

	// step is the number of the step, from 1, in a schedule of `steps` steps over `size` positions.
	// They are those of the current block where a sequence opens block after block.
	step  int
	steps int
	size  int

	// free[freeFrom:freeTo] may open or, if the sampler revises tokens, change.
	freeFrom int
	freeTo   int

	// blockFrom..blockTo-1 are the positions of the block, known ones among them. Both are 0 where
	// a step works on all that is free.
	blockFrom int
	blockTo   int

	// openLimit bounds what opens: positions from here on stay masked in this step.
	openLimit int

	// visible is the number of positions that the network sees, from the first on.
	visible int

	// visiblePositions, [n] ascending, are the positions that the network sees with a suffix window;
	// nil means all.
	visiblePositions []int32

	// shadows are the positions of which the pass has a second row (model.Batch.Shadows), ascending.
	shadows []int32

	// cutsLength makes the sequence end after `visible` positions in the pass, which without this
	// would see all of them.
	cutsLength bool

	// causal means that the pass is model.Feeder's Feed, of the kind `feeding`.
	causal  bool
	feeding model.Feeding

	// drawsByPosition makes draws depend on the position alone and not on the number of the step, so
	// that a draft which is checked in another step draws the same token.
	drawsByPosition bool

	// forbidden are tokens that are as good as impossible in this step.
	forbidden []int32

	// skipsSampler means that the pass is for the loop's own use: no position opens.
	skipsSampler bool
}

// sees reports whether the network sees a position in this step's pass.
func (s *span) sees(p int) bool {
	if s.visiblePositions == nil {
		return true
	}
	_, ok := slices.BinarySearch(s.visiblePositions, int32(p))
	return ok
}

// blockBounds returns the positions of the block that opens: from the first to behind the last.
func (s *span) blockBounds(free []int) (from, to int) {
	if s.blockTo > 0 || s.freeTo <= s.freeFrom {
		return s.blockFrom, s.blockTo
	}
	return free[s.freeFrom], free[s.freeTo-1] + 1
}

// countBehind returns the number of masked positions behind those that may open, of those that the
// pass sees.
func (s *span) countBehind(tokens []int32, free []int, mask int32) (n int) {
	for _, p := range free[s.freeTo:] {
		if tokens[p] == mask && s.sees(p) {
			n++
		}
	}
	return n
}
