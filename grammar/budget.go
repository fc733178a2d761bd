package grammar

import (
	"context"
	"runtime"

	"unmask/param"
)

// Budget bounds the compilation of a language: the states of each automaton, and the work on all.
// Work is counted, not timed, so that every machine refuses the same languages. A nil Budget has no
// bounds but memory's.
type Budget struct {
	states int
	*work
}

// work is the budget that all parts of a compilation share.
type work struct {
	ctx context.Context

	// left is the part of maxWork that remains.
	left int

	// nextPause is what is left when other goroutines get the processor next.
	nextPause int
}

// maxWork bounds the work of one language, in states and edges that are looked at: two seconds on a
// slow processor.
const maxWork = 1 << 26

// pauseWork is the work between two pauses, less than a millisecond.
const pauseWork = 1 << 15

// NewBudget returns the budget of a language whose automata have at most so many states. Work ends
// when ctx does.
func NewBudget(ctx context.Context, states int) *Budget {
	return &Budget{states, &work{ctx, maxWork, maxWork}}
}

// WithStates returns a budget of the same work with another bound on states.
func (b *Budget) WithStates(states int) *Budget { return &Budget{states, b.work} }

// States is the bound on an automaton's states.
func (b *Budget) States() int {
	if b == nil {
		return 1 << 22
	}
	return b.states
}

// Spend takes work from the budget. The error is that of its context, or about its bound. It lets
// other goroutines run from time to time: a client's schema is compiled while the passes of others
// run, and these should not wait for it.
func (b *Budget) Spend(n int) error {
	if b == nil {
		return nil
	}
	w := b.work
	w.left -= min(n, w.left+1) // down to -1 and no further, so that it cannot overflow
	if w.left < 0 {
		return &param.Error{
			Name:  "grammar",
			Found: "one that takes too much work",
			Want:  "one that compiles in a second or two",
		}
	}
	if w.left > w.nextPause {
		return nil
	}
	w.nextPause = w.left - pauseWork
	runtime.Gosched()
	return w.ctx.Err()
}
