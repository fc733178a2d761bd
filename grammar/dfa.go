package grammar

// DFA is a deterministic automaton over bytes. Every state lies on a way from the start to an
// accepting state; a byte without an edge is refused. The empty language has no states.
type DFA struct {
	start  int32
	first  []int32 // [states+1] where a state's edges begin
	edges  []Edge  // of a state by rising bytes
	accept []bool  // [states]
}

// States returns the number of states.
func (d *DFA) States() int { return len(d.accept) }

// Bytes returns about how much memory the automaton holds.
func (d *DFA) Bytes() int { return 8*len(d.edges) + 5*len(d.accept) }

// Start returns the first state.
func (d *DFA) Start() int32 { return d.start }

// Out returns the edges of a state, by rising bytes.
func (d *DFA) Out(s int32) []Edge { return d.edges[d.first[s]:d.first[s+1]] }

// Accepts reports whether a text may end in a state.
func (d *DFA) Accepts(s int32) bool { return d.accept[s] }

// Empty reports whether the language has no text.
func (d *DFA) Empty() bool { return len(d.accept) == 0 }

// Next returns the state after a byte, or -1.
func (d *DFA) Next(s int32, c byte) int32 {
	for _, e := range d.Out(s) {
		if c <= e.Hi {
			if c >= e.Lo {
				return e.To
			}
			return -1
		}
	}
	return -1
}

// Match reports whether a text belongs to the language.
func (d *DFA) Match(text string) bool {
	if d.Empty() {
		return false
	}
	s := d.start
	for i := range len(text) {
		s = d.Next(s, text[i])
		if s < 0 {
			return false
		}
	}
	return d.accept[s]
}

// ListTexts returns the texts of the language. ok is false if there are more than limit, or one of
// them has more than 1000 bytes: texts are then some of them.
func (d *DFA) ListTexts(limit int) (texts []string, ok bool) {
	var visit func(s int32, text []byte) bool
	visit = func(s int32, text []byte) bool {
		if d.accept[s] {
			texts = append(texts, string(text))
		}
		if len(texts) > limit || len(text) > 1000 {
			return false
		}
		for _, e := range d.Out(s) {
			for c := int(e.Lo); c <= int(e.Hi); c++ {
				if !visit(e.To, append(text, byte(c))) {
					return false
				}
			}
		}
		return true
	}
	ok = d.Empty() || visit(d.start, nil)
	return texts, ok
}

// Intersect returns the texts of both languages, within the states and the work of a budget. The
// error is that of the budget.
func Intersect(a, b *DFA, budget *Budget) (*DFA, error) { return product(a, b, budget, false) }

// Subtract returns the texts of a that are not in b, within the states and the work of a budget.
// There is no complement of one automaton: which texts it is taken from must be said, those of all
// bytes or those in UTF-8. The error is that of the budget.
func Subtract(a, b *DFA, budget *Budget) (*DFA, error) { return product(a, b, budget, true) }

// pairWork is the work on a pair of states, beside that on its edges.
const pairWork = 16

// product returns the intersection of two languages or, with subtract, the texts of a that are not
// in b. Its states are the pairs of states that the same text leads to.
func product(a, b *DFA, budget *Budget, subtract bool) (*DFA, error) {
	if a.Empty() || b.Empty() {
		if subtract {
			return a, nil
		}
		return &DFA{first: []int32{0}}, nil
	}
	// With subtract, a pair goes on after b refused a byte, as nothing b has can follow: then its b is
	// -1. Without it, such a pair leads nowhere and is left out.
	type pair struct{ a, b int32 }
	start := pair{a.start, b.start}
	ids := map[pair]int32{start: 0}
	pairs := []pair{start}
	out := &DFA{first: []int32{0}}
	addEdge := func(lo, hi byte, p pair) {
		if p.b < 0 && !subtract {
			return
		}
		id, ok := ids[p]
		if !ok {
			id = int32(len(pairs))
			ids[p] = id
			pairs = append(pairs, p)
		}
		out.edges = append(out.edges, Edge{lo, hi, id})
	}
	for i := 0; i < len(pairs); i++ {
		p := pairs[i]
		if i > 2*budget.States() { // the minimal automaton may be smaller
			return nil, &TooLargeError{budget.States()}
		}
		inB := p.b >= 0 && b.accept[p.b]
		out.accept = append(out.accept, a.accept[p.a] && inB != subtract)

		var edgesB []Edge
		if p.b >= 0 {
			edgesB = b.Out(p.b)
		}
		edgesA := a.Out(p.a)
		if err := budget.Spend(pairWork + len(edgesA)*(1+len(edgesB))); err != nil {
			return nil, err
		}
		for _, e := range edgesA {
			overlay(e, edgesB, func(lo, hi byte, target int32) { addEdge(lo, hi, pair{e.To, target}) })
		}
		out.first = append(out.first, int32(len(out.edges)))
	}
	return out.Minimize(), nil
}

// overlay divides the bytes of e where other edges, which are in order, begin and end. It calls add
// with each piece and the other edge's state, -1 for none.
func overlay(e Edge, dividers []Edge, add func(lo, hi byte, target int32)) {
	lo := int(e.Lo)
	for _, f := range dividers {
		if int(f.Hi) < lo || f.Lo > e.Hi {
			continue
		}
		if int(f.Lo) > lo {
			add(byte(lo), f.Lo-1, -1)
			lo = int(f.Lo)
		}
		hi := min(f.Hi, e.Hi)
		add(byte(lo), hi, f.To)
		lo = int(hi) + 1
	}
	if lo <= int(e.Hi) {
		add(byte(lo), e.Hi, -1)
	}
}

// WithTrailingSpace returns the automaton of d's texts with any number of spaces and newlines after
// them.
func (d *DFA) WithTrailingSpace() *DFA {
	b := NewBuilder(nil)
	source := b.AddState()
	target := b.AddState()
	b.Embed(source, target, d)
	b.AddRange(target, target, ' ', ' ')
	b.AddRange(target, target, '\n', '\n')
	out, _ := b.Build(source, target) // without a budget there is no error
	return out
}
