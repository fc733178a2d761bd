// Package grammar makes automata of regular languages: of bytes, from regular expressions, lists of
// choices and what package schema builds, and of the tokens of a vocabulary, which is what a
// sampler needs.
package grammar

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Edge reads one byte of Lo to Hi and leads to a state.
type Edge struct {
	Lo, Hi byte
	To     int32
}

// Builder is a nondeterministic automaton that grows state by state. The methods that add a part
// take the state where it begins and return, or take, the one where it ends.
type Builder struct {
	edges [][]Edge
	empty [][]int32 // edges that read nothing
	limit int
	full  bool
}

// NewBuilder returns a builder of automata of at most limit states, 0 for no limit but memory.
func NewBuilder(limit int) *Builder {
	if limit == 0 {
		limit = 1 << 24
	}
	return &Builder{limit: limit}
}

// State adds a state.
func (b *Builder) State() int32 {
	if len(b.edges) >= 3*b.limit { // a nondeterministic automaton may be larger than its result
		b.full = true
		return int32(len(b.edges) - 1)
	}
	b.edges, b.empty = append(b.edges, nil), append(b.empty, nil)
	return int32(len(b.edges) - 1)
}

// Full reports whether the automaton has too many states; DFA then returns an error.
func (b *Builder) Full() bool { return b.full }

// Range adds an edge that reads one byte of lo to hi.
func (b *Builder) Range(from, to int32, lo, hi byte) {
	b.edges[from] = append(b.edges[from], Edge{lo, hi, to})
}

// Empty adds an edge that reads nothing.
func (b *Builder) Empty(from, to int32) { b.empty[from] = append(b.empty[from], to) }

// Text adds a path that reads a text, and returns its end.
func (b *Builder) Text(from int32, text string) int32 {
	for i := range len(text) {
		next := b.State()
		b.Range(from, next, text[i], text[i])
		from = next
	}
	return from
}

// Embed adds a copy of d between two states.
func (b *Builder) Embed(from, to int32, d *DFA) {
	base := int32(len(b.edges))
	for s := range d.States() {
		if b.State(); b.full {
			return
		}
		out := d.Out(int32(s))
		copied := make([]Edge, len(out))
		for i, e := range out {
			copied[i] = Edge{e.Lo, e.Hi, e.To + base}
		}
		b.edges[base+int32(s)] = copied
		if d.accept[s] {
			b.Empty(base+int32(s), to)
		}
	}
	if d.States() > 0 {
		b.Empty(from, base+d.start)
	}
}

// TooLarge is the error of a language whose automaton has more states than allowed.
type TooLarge struct{ Limit int }

func (e *TooLarge) Error() string {
	return fmt.Sprintf("states is more than %d, want at most %d for one language", e.Limit, e.Limit)
}

func tooLarge(limit int) error { return &TooLarge{limit} }

// DFA returns the minimal deterministic automaton of what leads from start to accept.
func (b *Builder) DFA(start, accept int32) (*DFA, error) {
	if b.full {
		return nil, tooLarge(b.limit)
	}
	d := &subsets{b: b, ids: map[string]int32{}, seen: make([]int32, len(b.edges))}
	d.closures = make([][]int32, len(b.edges))
	return d.build(start, accept)
}

// subsets is the subset construction.
type subsets struct {
	b        *Builder
	ids      map[string]int32
	sets     [][]int32
	seen     []int32
	stamp    int32
	closures [][]int32 // of one state each, sorted
	key      []byte
	cuts     []int
	targets  []int32
}

func (d *subsets) build(start, accept int32) (*DFA, error) {
	out := &DFA{first: []int32{0}}
	d.id(d.closure(start))
	for s := 0; s < len(d.sets); s++ {
		if s >= 2*d.b.limit { // the minimal automaton may be smaller
			return nil, tooLarge(d.b.limit)
		}
		set := d.sets[s]
		_, accepts := slices.BinarySearch(set, accept)
		out.accept = append(out.accept, accepts)
		out.edges = d.step(set, out.edges)
		out.first = append(out.first, int32(len(out.edges)))
	}
	out = out.Minimal()
	if out.States() > d.b.limit {
		return nil, tooLarge(d.b.limit)
	}
	return out, nil
}

// closure returns the states that s leads to without reading.
func (d *subsets) closure(s int32) []int32 {
	if c := d.closures[s]; c != nil {
		return c
	}
	d.stamp++
	d.seen[s] = d.stamp
	list := []int32{s}
	for i := 0; i < len(list); i++ {
		for _, t := range d.b.empty[list[i]] {
			if d.seen[t] != d.stamp {
				d.seen[t] = d.stamp
				list = append(list, t)
			}
		}
	}
	// States that read nothing and are not the end matter no more, but keeping them is harmless.
	slices.Sort(list)
	d.closures[s] = list
	return list
}

// id returns the number of a set of states.
func (d *subsets) id(set []int32) int32 {
	d.key = d.key[:0]
	for _, s := range set {
		d.key = binary.LittleEndian.AppendUint32(d.key, uint32(s))
	}
	if id, ok := d.ids[string(d.key)]; ok {
		return id
	}
	id := int32(len(d.sets))
	d.ids[string(d.key)] = id
	d.sets = append(d.sets, slices.Clone(set))
	return id
}

// step appends the edges of a set of states.
func (d *subsets) step(set []int32, out []Edge) []Edge {
	d.cuts = d.cuts[:0]
	n := 0
	for _, s := range set {
		for _, e := range d.b.edges[s] {
			d.cuts = append(d.cuts, int(e.Lo), int(e.Hi)+1)
			n++
		}
	}
	if n == 0 {
		return out
	}
	slices.Sort(d.cuts)
	d.cuts = slices.Compact(d.cuts)
	begin := len(out)
	for i, lo := range d.cuts[:len(d.cuts)-1] {
		hi := d.cuts[i+1] - 1
		d.targets = d.targets[:0]
		one := int32(-1)
		many := false
		for _, s := range set {
			for _, e := range d.b.edges[s] {
				if int(e.Lo) <= lo && int(e.Hi) >= hi {
					many = many || one >= 0 && one != e.To
					one = e.To
					d.targets = append(d.targets, e.To)
				}
			}
		}
		if one < 0 {
			continue
		}
		reached := d.closure(one)
		if many {
			reached = d.union(d.targets)
		}
		to := d.id(reached)
		if last := len(out) - 1; last >= begin && out[last].To == to && int(out[last].Hi)+1 == lo {
			out[last].Hi = byte(hi)
		} else {
			out = append(out, Edge{byte(lo), byte(hi), to})
		}
	}
	return out
}

// union returns the sorted union of the closures of states.
func (d *subsets) union(states []int32) []int32 {
	var lists [][]int32
	for _, s := range states {
		lists = append(lists, d.closure(s))
	}
	d.stamp++
	var all []int32
	for _, list := range lists {
		for _, s := range list {
			if d.seen[s] != d.stamp {
				d.seen[s] = d.stamp
				all = append(all, s)
			}
		}
	}
	slices.Sort(all)
	return all
}
