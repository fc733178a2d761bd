package grammar

import (
	"slices"

	"unmask/param"
)

// result returns the automaton of the states that tokens reach and from which tokens lead to the
// end.
func (m *composition) result() (*Tokens, error) {
	n := int32(m.d.States())
	accept, end := slices.Clone(m.d.accept), int32(-1)
	if len(m.o.Ends) > 0 {
		end = n
		for s := range accept {
			if accept[s] {
				m.out[s] = append(m.out[s], TokenEdge{m.set(m.special(m.o.Ends)), end})
			}
			accept[s] = accept[s] && m.o.Cut
		}
		accept = append(accept, true)
		m.out = append(m.out, []TokenEdge{{m.set(m.special(m.o.Fill)), end}})
		if len(m.o.Fill) == 0 {
			m.out[end] = nil
		}
	}
	t := &Tokens{Class: m.class, Classes: int(m.classes), Sets: m.sets, end: -1, first: []int32{0}}
	far := distances(accept, predecessors(len(accept), func(s int32, edge func(to int32)) {
		for _, e := range m.out[s] {
			edge(e.To)
		}
	}))
	if far[m.d.start] < 0 {
		return nil, &param.Error{Name: "grammar", Found: "one whose texts this vocabulary cannot spell",
			Want: "another grammar or model"}
	}
	edges := 0
	for _, list := range m.out {
		edges += len(list)
	}
	t.edges = make([]TokenEdge, 0, edges)
	name := slices.Repeat([]int32{-1}, len(accept))
	name[m.d.start] = 0
	order := []int32{m.d.start}
	for i := 0; i < len(order); i++ {
		s := order[i]
		for _, e := range m.out[s] {
			if far[e.To] < 0 {
				continue
			}
			if name[e.To] < 0 {
				name[e.To] = int32(len(order))
				order = append(order, e.To)
			}
			t.edges = append(t.edges, TokenEdge{e.Set, name[e.To]})
		}
		t.first = append(t.first, int32(len(t.edges)))
		t.accept = append(t.accept, accept[s])
		t.Shortest = append(t.Shortest, far[s])
		if s == end {
			s = -1
		}
		t.Origin = append(t.Origin, s)
	}
	if end >= 0 {
		t.end = name[end]
	}
	t.prune()
	if t.Bytes() > m.o.Bytes {
		return nil, m.tooLarge()
	}
	return t, nil
}

// prune keeps the sets that an edge has.
func (t *Tokens) prune() {
	name := slices.Repeat([]int32{-1}, len(t.Sets))
	var sets [][]int32
	for i, e := range t.edges {
		if name[e.Set] < 0 {
			name[e.Set] = int32(len(sets))
			sets = append(sets, t.Sets[e.Set])
		}
		t.edges[i].Set = name[e.Set]
	}
	t.Sets = sets
}

// special returns the classes of tokens that end a text, which are alone in theirs.
func (m *composition) special(tokens []int32) (classes []int32) {
	for _, t := range tokens {
		if t < 0 || int(t) >= len(m.class) {
			continue
		}
		if m.class[t] < 0 {
			m.class[t] = m.classes
			m.classes++
		}
		if !slices.Contains(classes, m.class[t]) {
			classes = append(classes, m.class[t])
		}
	}
	slices.Sort(classes)
	return classes
}
