package grammar

import (
	"encoding/binary"
	"slices"
)

// minimizer is a partition of a DFA's states that is refined until it is stable.
type minimizer struct {
	d           *DFA
	begin, from []int32
	class       []int32
	members     [][]int32 // of each class
	at          []int32   // index of a state in its class
	dirty       [][]int32 // of each class, states to look at again
	marked      []bool
	queue       []int32 // classes with dirty states
	key         []byte
}

func newMinimizer(d *DFA) *minimizer {
	n := d.States()
	m := &minimizer{d: d, class: make([]int32, n), at: make([]int32, n), marked: make([]bool, n)}
	m.begin, m.from = d.predecessors()
	m.members, m.dirty = make([][]int32, 1), make([][]int32, 1)
	for s := range int32(n) {
		m.at[s] = s
		m.members[0] = append(m.members[0], s)
		m.dirty[0] = append(m.dirty[0], s)
		m.marked[s] = true
	}
	m.queue = []int32{0}
	return m
}

func (m *minimizer) refine() {
	for len(m.queue) > 0 {
		c := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		m.split(c)
	}
}

// signature returns what distinguishes a state, as a string of bytes.
func (m *minimizer) signature(s int32) []byte {
	key := append(m.key[:0], 0)
	if m.d.accept[s] {
		key[0] = 1
	}
	lo, hi, to := -1, -2, int32(-1)
	flush := func() {
		if to >= 0 {
			key = append(key, byte(lo), byte(hi))
			key = binary.LittleEndian.AppendUint32(key, uint32(to))
		}
	}
	for _, e := range m.d.Out(s) {
		if t := m.class[e.To]; t == to && int(e.Lo) == hi+1 {
			hi = int(e.Hi)
		} else {
			flush()
			lo, hi, to = int(e.Lo), int(e.Hi), t
		}
	}
	flush()
	m.key = key
	return key
}

// split divides a class by the signatures of its states. Those that are not dirty have one.
func (m *minimizer) split(c int32) {
	dirty := m.dirty[c]
	m.dirty[c] = nil
	groups := map[string]int{}
	var lists [][]int32
	for _, s := range dirty {
		m.marked[s] = false
		g, ok := groups[string(m.signature(s))]
		if !ok {
			g = len(lists)
			groups[string(m.key)] = g
			lists = append(lists, nil)
		}
		lists[g] = append(lists[g], s)
	}
	// The part that stays: the states that are not dirty, with those of the same signature, or the
	// largest part.
	rest := len(m.members[c]) - len(dirty)
	stay, size := -1, rest
	if rest > 0 {
		seen := m.marked
		for _, s := range dirty {
			seen[s] = true
		}
		for _, s := range m.members[c] {
			if !seen[s] {
				if g, ok := groups[string(m.signature(s))]; ok {
					lists[g] = nil // they stay
				}
				break
			}
		}
		for _, s := range dirty {
			seen[s] = false
		}
	} else {
		for g, list := range lists {
			if len(list) > size {
				stay, size = g, len(list)
			}
		}
	}
	var moved []int32
	for g, list := range lists {
		if g == stay || len(list) == 0 {
			continue
		}
		name := int32(len(m.members))
		m.members, m.dirty = append(m.members, list), append(m.dirty, nil)
		for _, s := range list {
			m.leave(c, s)
		}
		for i, s := range list {
			m.class[s], m.at[s] = name, int32(i)
		}
		moved = append(moved, list...)
	}
	for _, t := range moved {
		for _, s := range m.from[m.begin[t]:m.begin[t+1]] {
			if !m.marked[s] {
				m.marked[s] = true
				k := m.class[s]
				if len(m.dirty[k]) == 0 {
					m.queue = append(m.queue, k)
				}
				m.dirty[k] = append(m.dirty[k], s)
			}
		}
	}
}

// leave removes a state from the list of a class.
func (m *minimizer) leave(c, s int32) {
	list := m.members[c]
	last := list[len(list)-1]
	list[m.at[s]], m.at[last] = last, m.at[s]
	m.members[c] = list[:len(list)-1]
}

// result returns the automaton of the classes, its states in the order of a walk from the start.
func (m *minimizer) result() *DFA {
	d := m.d
	out := &DFA{first: []int32{0}}
	name := slices.Repeat([]int32{-1}, len(m.members))
	order := []int32{d.start}
	name[m.class[d.start]] = 0
	for i := 0; i < len(order); i++ {
		begin := len(out.edges)
		for _, e := range d.Out(order[i]) {
			c := m.class[e.To]
			if name[c] < 0 {
				name[c] = int32(len(order))
				order = append(order, e.To)
			}
			last := len(out.edges) - 1
			if last >= begin && out.edges[last].To == name[c] && out.edges[last].Hi+1 == e.Lo {
				out.edges[last].Hi = e.Hi
			} else {
				out.edges = append(out.edges, Edge{e.Lo, e.Hi, name[c]})
			}
		}
		out.first = append(out.first, int32(len(out.edges)))
		out.accept = append(out.accept, d.accept[order[i]])
	}
	return out
}
