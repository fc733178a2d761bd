package grammar

import (
	"slices"
)

// Tokens is an automaton over the tokens of a vocabulary, made from one over bytes. Tokens that
// lead from every state to the same states form a class, and an edge reads the classes of a set:
// what happens at a position depends on the sums of probabilities over sets alone.
type Tokens struct {
	Start      int32
	Class      []int32   // [vocabulary] the class of a token, -1 for one that no state reads
	ClassCount int       // how many there are
	Sets       [][]int32 // classes, rising
	MinTokens  []int32   // [states] tokens on the shortest way to the end
	ByteState  []int32   // [states] the state over bytes, -1 for the one after the end
	first      []int32   // [states+1]
	edges      []TokenEdge
	accept     []bool
	end        int32 // the state after the end, or -1
}

// TokenEdge reads a token of a set.
type TokenEdge struct{ Set, To int32 }

// States returns the number of states.
func (t *Tokens) States() int { return len(t.accept) }

// End returns the state after a token that ends texts, or -1 if there are no such tokens.
func (t *Tokens) End() int32 { return t.end }

// Out returns the edges of a state. A token is read by one of them at most.
func (t *Tokens) Out(s int32) []TokenEdge { return t.edges[t.first[s]:t.first[s+1]] }

// Accepts reports whether a text may end in a state.
func (t *Tokens) Accepts(s int32) bool { return t.accept[s] }

// Next returns the state after a token, or -1.
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

// TokenOptions say how texts end, and bound an automaton.
type TokenOptions struct {
	EndTokens   []int32 // tokens that end a text; without any, it ends where the positions do
	FillTokens  []int32 // tokens that may follow an end
	MayTruncate bool    // with Ends, a text may also end where the positions do
	Bytes       int     // the most memory; 0 means 64 MiB
	Budget      *Budget // of work; nil: none
}

const defaultBytes = 64 << 20
