package grammar

import (
	"slices"
)

// Tokens is an automaton over the tokens of a vocabulary, made from one over bytes. Tokens that
// lead from every state to the same states form a class, and an edge reads the classes of a set:
// what happens at a position depends on the sums of probabilities over sets alone, so that sums
// over states need not look at the tokens of a large vocabulary.
type Tokens struct {
	Start int32

	// Class has the class of each token of the vocabulary, -1 for one that no state reads. There are
	// ClassCount classes.
	Class      []int32
	ClassCount int

	// Sets are sets of classes, rising.
	Sets [][]int32

	// MinTokens has for each state the tokens on the shortest way to the end.
	MinTokens []int32

	// ByteState has for each state that over bytes, -1 for the one after the end.
	ByteState []int32

	first  []int32 // [states+1] where a state's edges begin
	edges  []TokenEdge
	accept []bool
	end    int32 // the state after the end, or -1
	padSet int32 // the set of the tokens that spell nothing, or -1
}

// TokenEdge reads a token of a set.
type TokenEdge struct{ Set, To int32 }

// States returns the number of states.
func (t *Tokens) States() int { return len(t.accept) }

// End returns the state after a token that ends texts, or -1 if there are no such tokens.
func (t *Tokens) End() int32 { return t.end }

// IsPadding reports whether an edge reads tokens that spell nothing.
func (t *Tokens) IsPadding(e TokenEdge) bool { return e.Set == t.padSet }

// Out returns the edges of a state. A token is read by one of them at most.
func (t *Tokens) Out(s int32) []TokenEdge { return t.edges[t.first[s]:t.first[s+1]] }

// Accepts reports whether a text may end in a state.
func (t *Tokens) Accepts(s int32) bool { return t.accept[s] }

// Next returns the state after a token, or -1. A token leads on from a state in one way at most,
// because its bytes do.
func (t *Tokens) Next(s, token int32) int32 {
	if token < 0 || int(token) >= len(t.Class) || t.Class[token] < 0 {
		return -1
	}
	for _, e := range t.Out(s) {
		if _, ok := slices.BinarySearch(t.Sets[e.Set], t.Class[token]); ok {
			return e.To
		}
	}
	return -1
}

// Edges returns the number of edges.
func (t *Tokens) Edges() int { return len(t.edges) }

// Bytes returns about how much memory the automaton holds.
func (t *Tokens) Bytes() int {
	n := 4*len(t.Class) + 8*len(t.edges) + 13*len(t.accept)
	for _, s := range t.Sets {
		n += 24 + 4*len(s)
	}
	return n
}

// TokenOptions say how texts end, and bound an automaton. With the zero value, a text ends where
// the positions do.
type TokenOptions struct {
	// EndTokens end a text.
	EndTokens []int32

	// FillTokens may follow an end token.
	FillTokens []int32

	// PadTokens spell nothing, and may stand anywhere: before, in and after a text. One that is an end
	// token ends a text.
	PadTokens []int32

	// MayTruncate, with EndTokens: a text may also end where the positions do.
	MayTruncate bool

	// AnyAfterEnd: all tokens that the automaton reads anywhere may follow an end token.
	AnyAfterEnd bool

	// Bytes bounds the memory; 0 means 64 MiB.
	Bytes int

	// Budget bounds the work; nil means no bound.
	Budget *Budget
}

const defaultBytes = 64 << 20
