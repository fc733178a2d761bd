package grammar

import (
	"slices"

	"unmask/param"
)

// result returns the automaton of the states that tokens reach and from which tokens lead to the
// end.
func (m *composition) result() (*Tokens, error) {
	accept, end := m.addEnd()
	padSet := m.addPads(end)
	far := distances(accept, predecessors(len(accept), func(s int32, edge func(target int32)) {
		for _, e := range m.out[s] {
			edge(e.To)
		}
	}))
	if far[m.d.start] < 0 {
		return nil, &param.Error{
			Name:  "grammar",
			Found: "one whose texts this vocabulary cannot spell",
			Want:  "another grammar or model",
		}
	}
	edges := 0
	for _, list := range m.out {
		edges += len(list)
	}
	t := &Tokens{
		Class:      m.class,
		ClassCount: int(m.classCount),
		end:        -1,
		padSet:     -1,
		first:      []int32{0},
		edges:      make([]TokenEdge, 0, edges),
	}

	// States are numbered in the order of a walk from the start, and sets in that of their first use,
	// so that equal languages have equal automata.
	states := newNumbering(len(accept))
	sets := newNumbering(len(m.sets))
	states.numberOf(m.d.start)
	for i := 0; i < len(states.order); i++ {
		s := states.order[i]
		for _, e := range m.out[s] {
			if far[e.To] >= 0 {
				t.edges = append(t.edges, TokenEdge{sets.numberOf(e.Set), states.numberOf(e.To)})
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
	if padSet >= 0 {
		t.padSet = sets.numbers[padSet]
	}
	if t.Bytes() > m.o.Bytes {
		return nil, m.tooLarge()
	}
	return t, nil
}

// addEnd adds the state after tokens that end texts, -1 without any, and returns in which states a
// text may end where the positions do.
func (m *composition) addEnd() (accept []bool, end int32) {
	accept = slices.Clone(m.d.accept)
	if len(m.o.EndTokens) == 0 {
		return accept, -1
	}
	end = int32(len(accept))
	for s := range accept {
		if accept[s] {
			set := m.setID(m.classesOfSpecial(m.o.EndTokens))
			m.out[s] = append(m.out[s], TokenEdge{set, end})
		}
		accept[s] = accept[s] && m.o.MayTruncate
	}
	var edgesAfterEnd []TokenEdge
	if len(m.o.FillTokens) > 0 {
		edgesAfterEnd = []TokenEdge{{m.setID(m.classesOfSpecial(m.o.FillTokens)), end}}
	}
	m.out = append(m.out, edgesAfterEnd)
	return append(accept, true), end
}

// addPads lets the tokens that spell nothing lead from each state to itself, and any token from the
// end if AnyAfterEnd. It returns the set of those that spell nothing, -1 without any.
func (m *composition) addPads(end int32) (set int32) {
	pads := slices.DeleteFunc(slices.Clone(m.o.PadTokens), func(t int32) bool {
		return slices.Contains(m.o.EndTokens, t)
	})
	classes := m.classesOfSpecial(pads)
	set = -1
	if len(classes) > 0 {
		set = m.setID(classes)
		for s := range m.out {
			m.out[s] = append(m.out[s], TokenEdge{set, int32(s)})
		}
	}
	if m.o.AnyAfterEnd && end >= 0 {
		every := make([]int32, m.classCount)
		for k := range every {
			every[k] = int32(k)
		}
		m.out[end] = []TokenEdge{{m.setID(every), end}}
	}
	return set
}

// classesOfSpecial returns the classes of tokens that end a text, follow its end or spell nothing.
// Each of these tokens has a class of its own.
func (m *composition) classesOfSpecial(tokens []int32) (classes []int32) {
	for _, t := range tokens {
		if t < 0 || int(t) >= len(m.class) {
			continue
		}
		if m.class[t] < 0 {
			m.class[t] = m.classCount
			m.classCount++
		}
		if !slices.Contains(classes, m.class[t]) {
			classes = append(classes, m.class[t])
		}
	}
	slices.Sort(classes)
	return classes
}
