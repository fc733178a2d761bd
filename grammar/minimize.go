package grammar

import (
	"cmp"
	"slices"
)

// minimizer is a partition of a DFA's states that is refined until it is stable. A class is a range
// of order, and those of its states that must be looked at again come first in it.
type minimizer struct {
	d           *DFA
	begin, from []int32 // predecessors
	order, at   []int32 // at[order[i]] = i
	class       []int32
	ranges      []classRange
	queue       []int32 // classes with states to look at
	keys        []keyed
	seed        uint64
}

type classRange struct{ lo, dirty, hi int32 } // order[lo:dirty] must be looked at

type keyed struct {
	key   uint64
	state int32
}

func newMinimizer(d *DFA) *minimizer {
	n := d.States()
	m := &minimizer{d: d, order: make([]int32, n), at: make([]int32, n), class: make([]int32, n)}
	m.begin, m.from = d.predecessors()
	for s := range int32(n) {
		m.order[s], m.at[s] = s, s
	}
	m.ranges = []classRange{{0, int32(n), int32(n)}}
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

// run returns the first interval of bytes that edges read into one class, and the edges after it.
func (m *minimizer) run(edges []Edge) (lo, hi byte, class int32, rest []Edge) {
	lo, hi, class = edges[0].Lo, edges[0].Hi, m.class[edges[0].To]
	for edges = edges[1:]; len(edges) > 0 && int(edges[0].Lo) == int(hi)+1 &&
		m.class[edges[0].To] == class; edges = edges[1:] {
		hi = edges[0].Hi
	}
	return lo, hi, class, edges
}

// key returns a hash of what distinguishes a state: whether it accepts, and the classes to which
// its edges lead.
func (m *minimizer) key(s int32) uint64 {
	h := m.seed
	if m.d.accept[s] {
		h++
	}
	for edges := m.d.Out(s); len(edges) > 0; {
		lo, hi, class, rest := m.run(edges)
		h = (h ^ uint64(lo) ^ uint64(hi)<<8 ^ uint64(class)<<16) * 0x9e3779b97f4a7c15
		h ^= h >> 29
		edges = rest
	}
	return h
}

// same reports whether two states are not distinguished.
func (m *minimizer) same(s, t int32) bool {
	a, b := m.d.Out(s), m.d.Out(t)
	for len(a) > 0 && len(b) > 0 {
		loA, hiA, classA, restA := m.run(a)
		loB, hiB, classB, restB := m.run(b)
		if loA != loB || hiA != hiB || classA != classB {
			return false
		}
		a, b = restA, restB
	}
	return len(a) == len(b) && m.d.accept[s] == m.d.accept[t]
}

// group sorts the states of a class that must be looked at so that equal ones follow each other,
// and those that equal the rest of the class come last. It returns where each group ends, and
// whether the last one equals the rest.
func (m *minimizer) group(r classRange) (ends []int32, stays bool) {
	for ; ; m.seed++ { // until no two different states have the same key
		m.keys = m.keys[:0]
		for _, s := range m.order[r.lo:r.dirty] {
			m.keys = append(m.keys, keyed{m.key(s), s})
		}
		rest := uint64(0)
		if r.dirty < r.hi {
			rest = m.key(m.order[r.dirty])
		}
		slices.SortFunc(m.keys, func(a, b keyed) int { return cmp.Compare(a.key-rest-1, b.key-rest-1) })
		exact := true
		ends = ends[:0]
		for i, k := range m.keys {
			if i > 0 && k.key == m.keys[i-1].key {
				exact = exact && m.same(k.state, m.keys[i-1].state)
				ends = ends[:len(ends)-1]
			}
			ends = append(ends, r.lo+int32(i)+1)
		}
		last := m.keys[len(m.keys)-1]
		if stays = r.dirty < r.hi && last.key == rest; stays {
			exact = exact && m.same(last.state, m.order[r.dirty])
		}
		if exact {
			return ends, stays
		}
	}
}

// split divides a class. Its largest part keeps its name or, if not all of it must be looked at,
// the part that need not.
func (m *minimizer) split(c int32) {
	r := m.ranges[c]
	ends, stays := m.group(r)
	for i, k := range m.keys {
		m.order[r.lo+int32(i)], m.at[k.state] = k.state, r.lo+int32(i)
	}
	stay := -1 // the group that keeps the name
	keeps := classRange{r.dirty, r.dirty, r.hi}
	switch {
	case stays:
		stay = len(ends) - 1
	case r.dirty == r.hi:
		keeps = classRange{}
		for g, end := range ends {
			if begin := r.begin(ends, g); end-begin > keeps.hi-keeps.lo {
				stay, keeps = g, classRange{begin, begin, end}
			}
		}
	}
	if stays {
		keeps.lo = r.begin(ends, stay)
		keeps.dirty = keeps.lo
	}
	m.ranges[c] = keeps
	for g, end := range ends {
		if g == stay {
			continue
		}
		begin := r.begin(ends, g)
		for _, s := range m.order[begin:end] {
			m.class[s] = int32(len(m.ranges))
		}
		m.ranges = append(m.ranges, classRange{begin, begin, end})
	}
	for g, end := range ends {
		if g != stay {
			m.touch(r.begin(ends, g), end)
		}
	}
}

// begin returns where a group begins.
func (r classRange) begin(ends []int32, g int) int32 {
	if g == 0 {
		return r.lo
	}
	return ends[g-1]
}

// touch marks the predecessors of the states in a range of order. It copies them, as marking moves
// states.
func (m *minimizer) touch(begin, end int32) {
	for _, t := range slices.Clone(m.order[begin:end]) {
		for _, s := range m.from[m.begin[t]:m.begin[t+1]] {
			r := &m.ranges[m.class[s]]
			if i := m.at[s]; i >= r.dirty {
				if r.dirty == r.lo {
					m.queue = append(m.queue, m.class[s])
				}
				other := m.order[r.dirty]
				m.order[r.dirty], m.order[i] = s, other
				m.at[s], m.at[other] = r.dirty, i
				r.dirty++
			}
		}
	}
}

// result returns the automaton of the classes, its states in the order of a walk from the start.
func (m *minimizer) result() *DFA {
	d := m.d
	out := &DFA{first: []int32{0}}
	name := slices.Repeat([]int32{-1}, len(m.ranges))
	order := []int32{d.start}
	name[m.class[d.start]] = 0
	for i := 0; i < len(order); i++ {
		for edges := d.Out(order[i]); len(edges) > 0; {
			to := edges[0].To
			lo, hi, c, rest := m.run(edges)
			if name[c] < 0 {
				name[c] = int32(len(order))
				order = append(order, to)
			}
			out.edges = append(out.edges, Edge{lo, hi, name[c]})
			edges = rest
		}
		out.first = append(out.first, int32(len(out.edges)))
		out.accept = append(out.accept, d.accept[order[i]])
	}
	return out
}
