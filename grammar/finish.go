package grammar

import (
	"slices"

	"unmask/param"
)

// result returns the automaton of the states that tokens reach and from which tokens lead to the
// end.
func (m *composition) result() (*Tokens, error) {
	accept, end := m.end()
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
	t := &Tokens{Class: m.class, ClassCount: int(m.classes), end: -1, first: []int32{0},
		edges: make([]TokenEdge, 0, edges)}
	states, sets := newNumbering(len(accept)), newNumbering(len(m.sets))
	states.of(m.d.start)
	for i := 0; i < len(states.order); i++ {
		s := states.order[i]
		for _, e := range m.out[s] {
			if far[e.To] >= 0 {
				t.edges = append(t.edges, TokenEdge{sets.of(e.Set), states.of(e.To)})
			}
		}
		t.first = append(t.first, int32(len(t.edges)))
		t.accept = append(t.accept, accept[s])
		t.MinTokens = append(t.MinTokens, far[s])
		if s == end {
			s = -1
		}
		t.ByteState = append(t.ByteState, s)
	}
	for _, set := range sets.order {
		t.Sets = append(t.Sets, m.sets[set])
	}
	if end >= 0 {
		t.end = states.numbers[end]
	}
	if t.Bytes() > m.o.Bytes {
		return nil, m.tooLarge()
	}
	return t, nil
}

// end adds the state after tokens that end texts, -1 without any, and returns where a text may end.
func (m *composition) end() (accept []bool, end int32) {
	accept = slices.Clone(m.d.accept)
	if len(m.o.EndTokens) == 0 {
		return accept, -1
	}
	end = int32(len(accept))
	for s := range accept {
		if accept[s] {
			m.out[s] = append(m.out[s], TokenEdge{m.set(m.special(m.o.EndTokens)), end})
		}
		accept[s] = accept[s] && m.o.MayTruncate
	}
	var after []TokenEdge
	if len(m.o.FillTokens) > 0 {
		after = []TokenEdge{{m.set(m.special(m.o.FillTokens)), end}}
	}
	m.out = append(m.out, after)
	return append(accept, true), end
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
