package grammar

import (
	"encoding/binary"
	"slices"
)

// predecessors returns, as a function, the states with an edge to each of n states. out calls its
// function for the states to which a state's edges lead.
func predecessors(n int, out func(s int32, edge func(target int32))) func(t int32) []int32 {
	// Counting sort: after both loops, the predecessors of t are list[begin[t]:begin[t+1]].
	begin := make([]int32, n+2)
	for s := range int32(n) {
		out(s, func(t int32) { begin[t+2]++ })
	}
	for t := range n {
		begin[t+2] += begin[t+1]
	}
	list := make([]int32, begin[n+1])
	for s := range int32(n) {
		out(s, func(t int32) {
			list[begin[t+1]] = s
			begin[t+1]++
		})
	}
	return func(t int32) []int32 { return list[begin[t]:begin[t+1]] }
}

// distances returns the number of edges from each state to an accepting one, -1 for none: a search
// in breadth, from the accepting states backwards. sourcesOf returns the states with an edge to a
// state.
func distances(accept []bool, sourcesOf func(t int32) []int32) []int32 {
	far := slices.Repeat([]int32{-1}, len(accept))
	var queue []int32
	for s, a := range accept {
		if a {
			far[s] = 0
			queue = append(queue, int32(s))
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, s := range sourcesOf(queue[0]) {
			if far[s] < 0 {
				far[s] = far[queue[0]] + 1
				queue = append(queue, s)
			}
		}
	}
	return far
}

// minimizer is a partition of a DFA's states that is refined until it is stable: Hopcroft's idea
// (1971, "An n log n algorithm for minimizing states in a finite automaton") with states in the
// place of letters, of which there would be 256. A class splits where its states' edges lead to
// different classes; one part keeps its name, and only the predecessors of states with new names
// are looked at again.
type minimizer struct {
	d      *DFA
	before func(t int32) []int32

	// far is the number of edges from each state to the end, -1 for none: such a state is as none.
	far   []int32
	class []int32 // of each state

	// Of each class: how many states it has, the key of those that need not be looked at, and those
	// that must be looked at.
	size    []int
	known   []string
	changed [][]int32

	// marked is true for the states in changed, and queue has the classes with such states.
	marked []bool
	queue  []int32

	// Memory of single calls: edges of a state, and its key.
	edges []Edge
	key   []byte
}

// Minimize returns the smallest automaton of the same language. Equal languages have equal ones.
func (d *DFA) Minimize() *DFA {
	n := d.States()
	m := &minimizer{
		d:      d,
		class:  make([]int32, n),
		marked: slices.Repeat([]bool{true}, n),
	}
	m.before = predecessors(n, func(s int32, edge func(target int32)) {
		for _, e := range d.Out(s) {
			edge(e.To)
		}
	})
	m.far = distances(d.accept, m.before)
	if n == 0 || m.far[d.start] < 0 {
		return &DFA{first: []int32{0}}
	}
	var live []int32
	for s, far := range m.far {
		if far >= 0 {
			live = append(live, int32(s))
		}
	}
	m.addClass(len(live), "", live)
	m.queue = []int32{0}
	for len(m.queue) > 0 {
		c := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		m.splitClass(c)
	}
	return m.result()
}

// addClass adds a class of so many states; knownKey and changed are its elements of the fields of
// these names.
func (m *minimizer) addClass(size int, knownKey string, changed []int32) {
	m.size = append(m.size, size)
	m.known = append(m.known, knownKey)
	m.changed = append(m.changed, changed)
}

// mergedEdges returns the edges of a state, which lead to classes; those to one class are joined
// where their bytes follow each other. It is overwritten by the next.
func (m *minimizer) mergedEdges(s int32) []Edge {
	out := m.edges[:0]
	for _, e := range m.d.Out(s) {
		if m.far[e.To] < 0 {
			continue
		}
		e.To = m.class[e.To]
		if n := len(out); n > 0 && out[n-1].To == e.To && int(out[n-1].Hi)+1 == int(e.Lo) {
			out[n-1].Hi = e.Hi
		} else {
			out = append(out, e)
		}
	}
	m.edges = out
	return out
}

// keyOf returns what distinguishes a state: whether it accepts, and the classes to which its edges
// lead. It is overwritten by the next.
func (m *minimizer) keyOf(s int32) []byte {
	m.key = append(m.key[:0], 0)
	if m.d.accept[s] {
		m.key[0] = 1
	}
	for _, e := range m.mergedEdges(s) {
		m.key = append(m.key, e.Lo, e.Hi)
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(e.To))
	}
	return m.key
}

// splitClass divides a class by the keys of its states. Those that need not be looked at keep its
// name, with all like them; without any, the largest part does. So each state gets a new name at
// most log n times, as its class has then at most half the size.
func (m *minimizer) splitClass(c int32) {
	if m.size[c] == 1 {
		m.marked[m.changed[c][0]] = false
		m.changed[c] = m.changed[c][:0]
		return
	}
	var parts [][]int32
	var keys []string // of the parts
	partOf := map[string]int{}
	largest := 0
	for _, s := range m.changed[c] {
		m.marked[s] = false
		key := m.keyOf(s)
		part, ok := partOf[string(key)]
		if !ok {
			part = len(parts)
			parts = append(parts, nil)
			keys = append(keys, string(key))
			partOf[keys[part]] = part
		}
		parts[part] = append(parts[part], s)
		if len(parts[part]) > len(parts[largest]) {
			largest = part
		}
	}
	if len(m.changed[c]) == m.size[c] {
		m.known[c] = keys[largest]
	}
	m.changed[c] = m.changed[c][:0]

	firstNew := len(m.size)
	for i, part := range parts {
		if keys[i] == m.known[c] {
			continue
		}
		for _, s := range part {
			m.class[s] = int32(len(m.size))
		}
		m.size[c] -= len(part)
		m.addClass(len(part), keys[i], nil)
	}
	for _, part := range parts {
		if int(m.class[part[0]]) < firstNew {
			continue
		}
		for _, t := range part {
			m.markPredecessors(t)
		}
	}
}

// markPredecessors marks the states with an edge to a state, because their keys have changed.
func (m *minimizer) markPredecessors(t int32) {
	for _, s := range m.before(t) {
		if m.marked[s] || m.far[s] < 0 {
			continue
		}
		m.marked[s] = true
		c := m.class[s]
		if len(m.changed[c]) == 0 {
			m.queue = append(m.queue, c)
		}
		m.changed[c] = append(m.changed[c], s)
	}
}

// result returns the automaton of the classes, its states in the order of a walk from the start.
func (m *minimizer) result() *DFA {
	d := m.d
	member := make([]int32, len(m.size)) // a state of each class
	for s, c := range m.class {
		if m.far[s] >= 0 {
			member[c] = int32(s)
		}
	}
	out := &DFA{first: []int32{0}}
	numbers := newNumbering(len(m.size))
	numbers.numberOf(m.class[d.start])
	for i := 0; i < len(numbers.order); i++ {
		s := member[numbers.order[i]]
		for _, e := range m.mergedEdges(s) {
			out.edges = append(out.edges, Edge{e.Lo, e.Hi, numbers.numberOf(e.To)})
		}
		out.first = append(out.first, int32(len(out.edges)))
		out.accept = append(out.accept, d.accept[s])
	}
	return out
}

// numbering gives consecutive numbers to the states in the order in which they are reached.
type numbering struct {
	numbers []int32 // -1: not reached
	order   []int32 // what was reached, by its number
}

// newNumbering returns the numbering of n things, of which none has a number yet.
func newNumbering(n int) *numbering { return &numbering{numbers: slices.Repeat([]int32{-1}, n)} }

// numberOf returns the number of s, the next one if s is reached for the first time.
func (n *numbering) numberOf(s int32) int32 {
	if n.numbers[s] < 0 {
		n.numbers[s] = int32(len(n.order))
		n.order = append(n.order, s)
	}
	return n.numbers[s]
}
