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
// In a step the pool calls next and quota. If the step needs a pass it then calls feed (only if
// span.partial is set) and kept, and when the sampler has chosen, check. When the tokens are in
// place it calls advance. A loop embeds its *member and reads the step's state from member.step.
//
// To add a kind of loop:
//
//  1. Write a file with a type that has the six methods; feed and check may be those of member, for
//     what is computed causally. What depends on the recipe alone is computed once and kept in the
//     task (see blockwork); the loop holds what changes.
//  2. Choose it in Pool.newTask, which also sets a bound on its steps. A recipe that it cannot run
//     is refused in Recipe.check.
//
// What a loop may do beyond these two:
//
//   - Use different networks in different steps: next sets span.network, or for a model.Feeder
//     span.causal and how.
//   - Draft tokens that nobody sees: a span that is quiet, and what passes ask of a specLoop.
//   - Compute a window of the sequence: feed appends its rows, and kept records only the tokens
//     whose keys and values are final.
//   - Change the sequence's length: advance replaces Tokens, past and the member's layout (a copy
//     of its own, not the task's) and corrects left. The pool must allow the greatest length.
//   - Go on with nothing masked: member.again.
type loop interface {
	// next returns the span of the next step. A position is masked, or member.again is true.
	next() span
	// quota returns the number of positions that the schedule opens, at most len(step.masked).
	quota() int
	// feed appends the rows of a partial pass, ascending; position p is row base+p.
	feed(rows []int32, base int) []int32
	// kept counts the work of the step's pass and sets member.cached to the tokens that the keys
	// and values in the cache were computed from.
	kept()
	// check returns an error for a choice that the loop does not allow. The pool has checked that
	// positions and tokens are in range.
	check() error
	// advance prepares the loop for the next step, and may open further positions with fill.
	advance()
}

// remake returns a pointer to a value, the start of a loop, in the memory of old if that is a loop
// of the same type.
func remake[T any](old loop, value T) *T {
	l, ok := any(old).(*T)
	if !ok {
		l = new(T)
	}
	*l = value
	return l
}

// span is the part of a sequence that a step works on.
type span struct {
	network *network
	partial bool // the pass computes the rows of feed alone

	n, of    int // step n of the steps that the schedule has for size positions
	size     int
	from, to int // free[from:to] may open or, if the sampler revises tokens, change
	end      int // positions from here on do not open in this step
	seen     int // number of positions that the network sees

	kept    []int32 // positions that the network sees, ascending; nil: all
	shadows []int32 // positions that the pass has shadows of

	bounded bool // only these are in the pass, though the network would see more

	causal bool          // the pass is model.Feeder's Feed
	how    model.Feeding // of that pass
	fixed  bool          // draws depend on the position alone, not on the number of the step
	forbid []int32       // tokens that are as good as impossible
	quiet  bool          // the sampler is not called: the loop works on something of its own
}

// sees reports whether the pass sees a position.
func (s *span) sees(p int) bool {
	if s.kept == nil {
		return true
	}
	_, ok := slices.BinarySearch(s.kept, int32(p))
	return ok
}

// behind returns the number of masked positions behind those that may open, which the pass sees.
func (s *span) behind(tokens []int32, free []int, mask int32) (n int) {
	for _, p := range free[s.to:] {
		if tokens[p] == mask && s.sees(p) {
			n++
		}
	}
	return n
}
