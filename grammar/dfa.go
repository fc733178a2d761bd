package grammar

// DFA is a deterministic automaton over bytes. Every state lies on a way from the start to an
// accepting state; a byte without an edge is refused. The empty language has no states.
type DFA struct {
	start  int32
	first  []int32 // [states+1] where a state's edges begin
	edges  []Edge  // of a state by rising bytes
	accept []bool
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
		if s = d.Next(s, text[i]); s < 0 {
			return false
		}
	}
	return d.accept[s]
}

// ListTexts returns the texts of the language, and whether they are at most so many, none of them
// above 1000 bytes.
func (d *DFA) ListTexts(most int) (texts []string, ok bool) {
	var follow func(s int32, text []byte) bool
	follow = func(s int32, text []byte) bool {
		if d.accept[s] {
			texts = append(texts, string(text))
		}
		if len(texts) > most || len(text) > 1000 {
			return false
		}
		for _, e := range d.Out(s) {
			for c := int(e.Lo); c <= int(e.Hi); c++ {
				if !follow(e.To, append(text, byte(c))) {
					return false
				}
			}
		}
		return true
	}
	ok = d.Empty() || follow(d.start, nil)
	return texts, ok
}

// Intersect returns the texts of both languages, Subtract those of a that are not in b. The result
// has at most as many states as the budget allows.
func Intersect(a, b *DFA, budget *Budget) (*DFA, error) { return product(a, b, budget, false) }

// Subtract returns the texts of a that are not in b.
func Subtract(a, b *DFA, budget *Budget) (*DFA, error) { return product(a, b, budget, true) }

// pairWork is the work on a pair of states, beside that on its edges.
const pairWork = 16

// overlay divides the bytes of e at those of other edges, which are in order, and calls part with
// each piece and the other edge's state, -1 for none.
func overlay(e Edge, other []Edge, part func(lo, hi byte, t int32)) {
	lo := int(e.Lo)
	for _, f := range other {
		if int(f.Hi) < lo || f.Lo > e.Hi {
			continue
		}
		if int(f.Lo) > lo {
			part(byte(lo), f.Lo-1, -1)
			lo = int(f.Lo)
		}
		hi := min(f.Hi, e.Hi)
		part(byte(lo), hi, f.To)
		lo = int(hi) + 1
	}
	if lo <= int(e.Hi) {
		part(byte(lo), e.Hi, -1)
	}
}

func product(a, b *DFA, budget *Budget, minus bool) (*DFA, error) {
	if a.Empty() || b.Empty() {
		if minus {
			return a, nil
		}
		return &DFA{first: []int32{0}}, nil
	}
	type pair struct{ s, t int32 } // t is -1 after b refused a byte
	ids := map[pair]int32{{a.start, b.start}: 0}
	list := []pair{{a.start, b.start}}
	out := &DFA{first: []int32{0}}
	edge := func(lo, hi byte, p pair) {
		if p.t < 0 && !minus {
			return
		}
		id, ok := ids[p]
		if !ok {
			id = int32(len(list))
			ids[p] = id
			list = append(list, p)
		}
		out.edges = append(out.edges, Edge{lo, hi, id})
	}
	for i := 0; i < len(list); i++ {
		p := list[i]
		if i > 2*budget.States() {
			return nil, tooLarge(budget.States())
		}
		accept := a.accept[p.s]
		if minus {
			accept = accept && (p.t < 0 || !b.accept[p.t])
		} else {
			accept = accept && b.accept[p.t]
		}
		out.accept = append(out.accept, accept)
		var other []Edge
		if p.t >= 0 {
			other = b.Out(p.t)
		}
		if err := budget.Spend(pairWork + len(a.Out(p.s))*(1+len(other))); err != nil {
			return nil, err
		}
		for _, e := range a.Out(p.s) {
			overlay(e, other, func(lo, hi byte, t int32) { edge(lo, hi, pair{e.To, t}) })
		}
		out.first = append(out.first, int32(len(out.edges)))
	}
	return out.Minimize(), nil
}

// WithTrailingSpace returns the automaton of d's texts with any number of spaces and newlines
// after them.
func (d *DFA) WithTrailingSpace() *DFA {
	b := NewBuilder(nil)
	from, to := b.AddState(), b.AddState()
	b.Embed(from, to, d)
	b.AddRange(to, to, ' ', ' ')
	b.AddRange(to, to, '\n', '\n')
	out, _ := b.Build(from, to) // it has no limit
	return out
}
