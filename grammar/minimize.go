package grammar

import (
	"encoding/binary"
	"slices"
)

// predecessors returns, as a function, the states with an edge to each of n states. out calls its
// function for the states to which a state's edges lead.
func predecessors(n int, out func(s int32, edge func(to int32))) func(t int32) []int32 {
	begin := make([]int32, n+2)
	for s := range int32(n) {
		out(s, func(t int32) { begin[t+2]++ })
	}
	for t := range n {
		begin[t+2] += begin[t+1]
	}
	from := make([]int32, begin[n+1])
	for s := range int32(n) {
		out(s, func(t int32) {
			from[begin[t+1]] = s
			begin[t+1]++
		})
	}
	return func(t int32) []int32 { return from[begin[t]:begin[t+1]] }
}

// distances returns the number of edges from each state to an accepting one, -1 for none. before
// returns the states with an edge to a state.
func distances(accept []bool, before func(t int32) []int32) []int32 {
	far := slices.Repeat([]int32{-1}, len(accept))
	var queue []int32
	for s, a := range accept {
		if a {
			far[s] = 0
			queue = append(queue, int32(s))
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, s := range before(queue[0]) {
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
// place of letters. A class splits where its states' edges lead to different classes; one part
// keeps its name, and only the predecessors of states with new names are looked at again.
type minimizer struct {
	d       *DFA
	before  func(t int32) []int32
	far     []int32   // [states] edges to the end, -1 for none: such a state is as none
	class   []int32   // [states]
	size    []int     // [classes]
	known   []string  // [classes] key of the states that need not be looked at
	changed [][]int32 // [classes] states that must be looked at
	marked  []bool    // [states] whether it is one of those
	queue   []int32   // classes with such states
	edges   []Edge    // of a state at hand
	bytes   []byte    // its key
}

// Minimize returns the smallest automaton of the same language.
func (d *DFA) Minimize() *DFA {
	n := d.States()
	m := &minimizer{d: d, class: make([]int32, n), marked: slices.Repeat([]bool{true}, n)}
	m.before = predecessors(n, func(s int32, edge func(to int32)) {
		for _, e := range d.Out(s) {
			edge(e.To)
		}
	})
	m.far = distances(d.accept, m.before)
	if n == 0 || m.far[d.start] < 0 {
		return &DFA{first: []int32{0}}
	}
	var all []int32
	for s, far := range m.far {
		if far >= 0 {
			all = append(all, int32(s))
		}
	}
	m.size, m.known, m.changed, m.queue = []int{len(all)}, []string{""}, [][]int32{all}, []int32{0}
	for len(m.queue) > 0 {
		c := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		m.split(c)
	}
	return m.result()
}

// merged returns the edges of a state, which lead to classes; those to one class are joined where
// their bytes follow each other. It is overwritten by the next.
func (m *minimizer) merged(s int32) []Edge {
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

// key returns what distinguishes a state: whether it accepts, and the classes to which its edges
// lead. It is overwritten by the next.
func (m *minimizer) key(s int32) []byte {
	m.bytes = append(m.bytes[:0], 0)
	if m.d.accept[s] {
		m.bytes[0] = 1
	}
	for _, e := range m.merged(s) {
		m.bytes = binary.LittleEndian.AppendUint32(append(m.bytes, e.Lo, e.Hi), uint32(e.To))
	}
	return m.bytes
}

// split divides a class by the keys of its states. Those that need not be looked at keep its name,
// with all like them; without any, the largest part does.
func (m *minimizer) split(c int32) {
	if m.size[c] == 1 {
		m.marked[m.changed[c][0]] = false
		m.changed[c] = m.changed[c][:0]
		return
	}
	var groups [][]int32
	var keys []string
	index, largest := map[string]int{}, 0
	for _, s := range m.changed[c] {
		m.marked[s] = false
		key := m.key(s)
		g, ok := index[string(key)]
		if !ok {
			g = len(groups)
			keys, groups = append(keys, string(key)), append(groups, nil)
			index[keys[g]] = g
		}
		if groups[g] = append(groups[g], s); len(groups[g]) > len(groups[largest]) {
			largest = g
		}
	}
	if len(m.changed[c]) == m.size[c] {
		m.known[c] = keys[largest]
	}
	m.changed[c] = m.changed[c][:0]
	first := len(m.size)
	for g, group := range groups {
		if keys[g] == m.known[c] {
			continue
		}
		for _, s := range group {
			m.class[s] = int32(len(m.size))
		}
		m.size[c] -= len(group)
		m.size, m.known = append(m.size, len(group)), append(m.known, keys[g])
		m.changed = append(m.changed, nil)
	}
	for _, group := range groups {
		if int(m.class[group[0]]) < first {
			continue
		}
		for _, t := range group {
			m.touch(t)
		}
	}
}

// touch marks the predecessors of a state.
func (m *minimizer) touch(t int32) {
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
	some := make([]int32, len(m.size)) // a state of each class
	for s, c := range m.class {
		if m.far[s] >= 0 {
			some[c] = int32(s)
		}
	}
	out := &DFA{first: []int32{0}}
	kept := newNumbering(len(m.size))
	kept.of(m.class[d.start])
	for i := 0; i < len(kept.order); i++ {
		s := some[kept.order[i]]
		for _, e := range m.merged(s) {
			out.edges = append(out.edges, Edge{e.Lo, e.Hi, kept.of(e.To)})
		}
		out.first = append(out.first, int32(len(out.edges)))
		out.accept = append(out.accept, d.accept[s])
	}
	return out
}

// numbering gives what is reached consecutive numbers.
type numbering struct {
	numbers []int32 // -1: not reached
	order   []int32
}

func newNumbering(n int) *numbering { return &numbering{numbers: slices.Repeat([]int32{-1}, n)} }

// of returns the number of s.
func (n *numbering) of(s int32) int32 {
	if n.numbers[s] < 0 {
		n.numbers[s] = int32(len(n.order))
		n.order = append(n.order, s)
	}
	return n.numbers[s]
}
