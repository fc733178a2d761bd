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

// spareStates is how many times more states a nondeterministic automaton may have than its result.
// Most become one with others; an automaton that has even more is refused before it is made
// deterministic, which takes far more time and memory than building it.
const spareStates = 8

// Builder is a nondeterministic automaton that grows state by state. The methods that add a part
// take the state where it begins and return, or take, the one where it ends.
//
// Once it has too many states or edges it stops growing and is full. No method returns an error for
// that, so that callers can add many parts and look at the error of Build alone.
type Builder struct {
	states []stateEdges
	edges  []linkedEdge
	empty  []linkedJump // edges that read nothing
	budget *Budget
	limit  int // of states of the result
	full   bool
}

// stateEdges has the latest edges of a state, by their indexes + 1; 0 for none. Each edge leads to
// the one before of the same state: lists in two slices take less memory and time than a slice for
// each state.
type stateEdges struct{ edge, empty int32 }

type linkedEdge struct {
	Edge
	previous int32 // edge of the same state, as in stateEdges
}

type linkedJump struct{ to, previous int32 }

// NewBuilder returns a builder of automata within a budget.
func NewBuilder(budget *Budget) *Builder {
	return &Builder{budget: budget, limit: budget.States()}
}

// AddState adds a state. A full builder returns one that it has, so that parts can still be added.
func (b *Builder) AddState() int32 {
	if len(b.states) >= spareStates*b.limit {
		b.full = true
		return int32(len(b.states) - 1)
	}
	b.states = append(b.states, stateEdges{})
	return int32(len(b.states) - 1)
}

// Full reports whether the automaton has too many states; Build then returns an error.
func (b *Builder) Full() bool { return b.full }

// maxEdges is how many edges of a kind a nondeterministic automaton may have for each state.
const maxEdges = 16

// hasRoom reports whether one more edge may be added to a number of them.
func (b *Builder) hasRoom(edges int) bool {
	b.full = b.full || edges >= maxEdges*spareStates*b.limit
	return !b.full
}

// AddRange adds an edge that reads one byte of lo to hi.
func (b *Builder) AddRange(source, target int32, lo, hi byte) {
	if !b.hasRoom(len(b.edges)) {
		return
	}
	s := &b.states[source]
	b.edges = append(b.edges, linkedEdge{Edge{lo, hi, target}, s.edge})
	s.edge = int32(len(b.edges))
}

// AddEmpty adds an edge that reads nothing.
func (b *Builder) AddEmpty(source, target int32) {
	if !b.hasRoom(len(b.empty)) {
		return
	}
	s := &b.states[source]
	b.empty = append(b.empty, linkedJump{target, s.empty})
	s.empty = int32(len(b.empty))
}

// AddText adds a path that reads a text, and returns its end.
func (b *Builder) AddText(source int32, text string) int32 {
	for i := 0; i < len(text) && !b.full; i++ {
		next := b.AddState()
		b.AddRange(source, next, text[i], text[i])
		source = next
	}
	return source
}

// Embed adds a copy of d between two states.
func (b *Builder) Embed(source, target int32, d *DFA) {
	if len(b.states)+d.States() > spareStates*b.limit {
		b.full = true
		return
	}
	base := int32(len(b.states)) // state s of d becomes base+s
	b.states = slices.Grow(b.states, d.States())
	b.edges = slices.Grow(b.edges, len(d.edges))
	for s := range int32(d.States()) {
		b.AddState()
		for _, e := range d.Out(s) {
			b.AddRange(base+s, base+e.To, e.Lo, e.Hi)
		}
		if d.accept[s] {
			b.AddEmpty(base+s, target)
		}
	}
	if d.States() > 0 {
		b.AddEmpty(source, base+d.start)
	}
}

// TooLargeError is the error of a language whose automaton has more than Limit states.
type TooLargeError struct{ Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("states is more than %d, want at most %d for one language", e.Limit, e.Limit)
}
