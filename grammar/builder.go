// Package grammar makes automata of regular languages: of bytes, from regular expressions, lists of
// choices and what package schema builds, and of the tokens of a vocabulary, which is what a
// sampler needs.
package grammar

import (
	"fmt"
	"slices"
)

// Edge reads one byte of Lo to Hi and leads to a state.
type Edge struct {
	Lo, Hi byte
	To     int32
}

// spare is how many times more states a nondeterministic automaton may have than its result.
const spare = 8

// Builder is a nondeterministic automaton that grows state by state. The methods that add a part
// take the state where it begins and return, or take, the one where it ends.
type Builder struct {
	states []place
	edges  []linked
	empty  []jump // edges that read nothing
	budget *Budget
	limit  int
	full   bool

	counts bool // states are counted, not kept
	size   int
}

// place has the latest edges of a state, by index + 1; 0 for none.
type place struct{ edge, empty int32 }

type linked struct {
	Edge
	next int32 // the edge before of the same state, as in place
}

type jump struct{ to, next int32 }

// NewBuilder returns a builder of automata within a budget.
func NewBuilder(budget *Budget) *Builder {
	return &Builder{budget: budget, limit: budget.States()}
}

// NewCounter returns a builder that only counts its states, up to the number at which it is full.
// All states that it returns are 0.
func NewCounter(most int) *Builder { return &Builder{limit: most, counts: true} }

// Size returns the number of states.
func (b *Builder) Size() int { return b.size }

// Count adds n states to those of a counter.
func (b *Builder) Count(n int) {
	b.size = min(b.size+n, 1<<30)
	b.full = b.size > b.limit
}

// AddState adds a state.
func (b *Builder) AddState() int32 {
	if b.counts {
		b.Count(1)
		return 0
	}
	if b.size >= spare*b.limit {
		b.full = true
		return int32(b.size - 1)
	}
	b.states = append(b.states, place{})
	b.size++
	return int32(b.size - 1)
}

// Full reports whether the automaton has too many states; DFA then returns an error.
func (b *Builder) Full() bool { return b.full }

// maxEdges is how many edges of a kind a nondeterministic automaton may have for each state.
const maxEdges = 16

// takes reports whether one more edge may be added to a number of them.
func (b *Builder) takes(edges int) bool {
	b.full = b.full || !b.counts && edges >= maxEdges*spare*b.limit
	return !b.counts && !b.full
}

// AddRange adds an edge that reads one byte of lo to hi.
func (b *Builder) AddRange(from, to int32, lo, hi byte) {
	if !b.takes(len(b.edges)) {
		return
	}
	p := &b.states[from]
	b.edges = append(b.edges, linked{Edge{lo, hi, to}, p.edge})
	p.edge = int32(len(b.edges))
}

// AddEmpty adds an edge that reads nothing.
func (b *Builder) AddEmpty(from, to int32) {
	if !b.takes(len(b.empty)) {
		return
	}
	p := &b.states[from]
	b.empty = append(b.empty, jump{to, p.empty})
	p.empty = int32(len(b.empty))
}

// AddText adds a path that reads a text, and returns its end.
func (b *Builder) AddText(from int32, text string) int32 {
	for i := 0; i < len(text) && !b.full; i++ {
		next := b.AddState()
		b.AddRange(from, next, text[i], text[i])
		from = next
	}
	return from
}

// Embed adds a copy of d between two states.
func (b *Builder) Embed(from, to int32, d *DFA) {
	if b.counts {
		b.Count(d.States())
		return
	}
	base := int32(b.size)
	if b.size+d.States() > spare*b.limit {
		b.full = true
		return
	}
	b.states = slices.Grow(b.states, d.States())
	b.edges = slices.Grow(b.edges, len(d.edges))
	for s := range int32(d.States()) {
		b.AddState()
		for _, e := range d.Out(s) {
			b.AddRange(base+s, base+e.To, e.Lo, e.Hi)
		}
		if d.accept[s] {
			b.AddEmpty(base+s, to)
		}
	}
	if d.States() > 0 {
		b.AddEmpty(from, base+d.start)
	}
}

// TooLargeError is the error of a language whose automaton has more states than allowed.
type TooLargeError struct{ Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("states is more than %d, want at most %d for one language", e.Limit, e.Limit)
}

func tooLarge(limit int) error { return &TooLargeError{limit} }
