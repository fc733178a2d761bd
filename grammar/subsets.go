package grammar

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Build returns the minimal deterministic automaton of what leads from start to accept, or a
// [*TooLargeError].
func (b *Builder) Build(start, accept int32) (*DFA, error) {
	if b.full {
		return nil, &TooLargeError{b.limit}
	}
	n := len(b.states)
	d := &subsets{
		b:         b,
		accept:    accept,
		ids:       map[string]int32{},
		closureID: slices.Repeat([]int32{-1}, n),
		singleID:  slices.Repeat([]int32{-1}, n),
		seen:      make([]int32, n),
	}
	return d.build(start)
}

// maxSets bounds how many states of a Builder there may be in the sets of an automaton, for each
// state that it may have.
const maxSets = 50

// subsets is the subset construction: each state of the result is a set of states of a Builder, to
// which the same texts lead. Most sets are the closure of one state, as all are inside of an
// embedded automaton, and are found by that state.
type subsets struct {
	b      *Builder
	accept int32

	// sets are sorted states, in the memory of arena. They are found by the state whose closure they
	// are, by their only state, or by the bytes of their states; -1 is none.
	sets      [][]int32
	arena     []int32
	closureID []int32 // [states]
	singleID  []int32 // [states]
	ids       map[string]int32

	// seen has for each state the stamp of the last closure that it was in.
	seen  []int32
	stamp int32

	// Memory of single calls: a key of ids, a closure, and, of the set at hand, its edges by rising
	// Lo, where they cut the bytes, and the states after a piece.
	key     []byte
	list    []int32
	edges   []Edge
	cuts    []int
	targets []int32

	work int // since it was last spent
}

// build returns the minimal automaton of the texts that lead from start to the accepting state
// (Rabin and Scott 1959, "Finite automata and their decision problems"). sets grows while the loop
// runs over it.
func (d *subsets) build(start int32) (*DFA, error) {
	out := &DFA{
		first:  make([]int32, 1, len(d.b.states)),
		edges:  make([]Edge, 0, len(d.b.edges)),
		accept: make([]bool, 0, len(d.b.states)),
	}
	d.setOfClosure(start)
	size := 0
	for s := 0; s < len(d.sets); s++ {
		set := d.sets[s]
		size += len(set)
		if s >= 2*d.b.limit || size > maxSets*d.b.limit { // the minimal automaton may be smaller
			return nil, &TooLargeError{d.b.limit}
		}
		if err := d.b.budget.Spend(d.work); err != nil {
			return nil, err
		}
		d.work = len(set) + pairWork
		_, accepts := slices.BinarySearch(set, d.accept)
		out.accept = append(out.accept, accepts)
		out.edges = d.appendEdges(out.edges, set)
		out.first = append(out.first, int32(len(out.edges)))
	}
	out = out.Minimize()
	if out.States() > d.b.limit {
		return nil, &TooLargeError{d.b.limit}
	}
	return out, nil
}

// closure returns the states that some lead to without reading, sorted. Those that neither read nor
// are the end are left out: without them more sets are equal. It is overwritten by the next.
func (d *subsets) closure(source ...int32) []int32 {
	d.stamp++
	list := d.list[:0]
	add := func(s int32) {
		if d.seen[s] != d.stamp {
			d.seen[s] = d.stamp
			list = append(list, s)
		}
	}
	for _, s := range source {
		add(s)
	}
	for i := 0; i < len(list); i++ {
		for k := d.b.states[list[i]].empty; k > 0; k = d.b.empty[k-1].previous {
			add(d.b.empty[k-1].to)
		}
	}
	d.work += len(list)
	d.list = list
	set := slices.DeleteFunc(list, func(s int32) bool {
		return d.b.states[s].edge == 0 && s != d.accept
	})
	slices.Sort(set)
	return set
}

// setOfClosure returns the number of the closure of a state.
func (d *subsets) setOfClosure(s int32) int32 {
	if d.closureID[s] < 0 {
		d.closureID[s] = d.setID(d.closure(s))
	}
	return d.closureID[s]
}

// setID returns the number of a set of states, of which it keeps a copy.
func (d *subsets) setID(set []int32) int32 {
	if len(set) == 1 {
		id := &d.singleID[set[0]]
		if *id < 0 {
			*id = d.keepSet(set)
		}
		return *id
	}
	d.key = appendIDs(d.key[:0], set)
	if id, ok := d.ids[string(d.key)]; ok {
		return id
	}
	id := d.keepSet(set)
	d.ids[string(d.key)] = id
	return id
}

// keepSet copies a set into the arena and returns its number. One large slice for all sets costs
// less than one for each.
func (d *subsets) keepSet(set []int32) (id int32) {
	begin := len(d.arena)
	d.arena = append(d.arena, set...)
	d.sets = append(d.sets, d.arena[begin:len(d.arena):len(d.arena)])
	return int32(len(d.sets) - 1)
}

// appendIDs appends numbers to the key by which a list of them is found.
func appendIDs(key []byte, ids []int32) []byte {
	for _, id := range ids {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	return key
}

// appendEdges appends the edges of a set of states.
func (d *subsets) appendEdges(out []Edge, set []int32) []Edge {
	d.edges = d.edges[:0]
	for _, s := range set {
		for k := d.b.states[s].edge; k > 0; k = d.b.edges[k-1].previous {
			d.edges = append(d.edges, d.b.edges[k-1].Edge)
		}
	}
	d.work += len(d.edges)
	slices.SortFunc(d.edges, func(a, b Edge) int { return cmp.Compare(a.Lo, b.Lo) })

	begin := len(out)
	add := func(lo, hi byte, target int32) {
		last := len(out) - 1
		if last >= begin && out[last].To == target && int(out[last].Hi)+1 == int(lo) {
			out[last].Hi = hi
		} else {
			out = append(out, Edge{lo, hi, target})
		}
	}
	for edges := d.edges; len(edges) > 0; {
		// The first n edges overlap, also by way of others.
		n := 1
		hi := edges[0].Hi
		for n < len(edges) && edges[n].Lo <= hi {
			hi = max(hi, edges[n].Hi)
			n++
		}
		if n == 1 {
			add(edges[0].Lo, edges[0].Hi, d.setOfClosure(edges[0].To))
		} else {
			d.divideOverlap(edges[:n], add)
		}
		edges = edges[n:]
	}
	return out
}

// divideOverlap calls add for the intervals into which edges, by rising Lo, divide the bytes.
func (d *subsets) divideOverlap(edges []Edge, add func(lo, hi byte, target int32)) {
	d.cuts = d.cuts[:0]
	for _, e := range edges {
		d.cuts = append(d.cuts, int(e.Lo), int(e.Hi)+1)
	}
	slices.Sort(d.cuts)
	d.cuts = slices.Compact(d.cuts)
	d.work += len(edges) * len(d.cuts)
	for i, lo := range d.cuts[:len(d.cuts)-1] {
		hi := d.cuts[i+1] - 1
		d.targets = d.targets[:0]
		for _, e := range edges {
			if int(e.Lo) > lo {
				break
			}
			if int(e.Hi) >= hi {
				d.targets = append(d.targets, e.To)
			}
		}
		slices.Sort(d.targets)
		d.targets = slices.Compact(d.targets)
		if len(d.targets) == 1 {
			add(byte(lo), byte(hi), d.setOfClosure(d.targets[0]))
		} else {
			add(byte(lo), byte(hi), d.setID(d.closure(d.targets...)))
		}
	}
}
