package grammar

// Choices returns the automaton of a list of texts.
func Choices(texts []string, budget *Budget) (*DFA, error) {
	b := NewBuilder(budget)
	from, to := b.AddState(), b.AddState()
	for _, t := range texts {
		b.AddEmpty(b.AddText(from, t), to)
	}
	return b.Build(from, to)
}

// endMark ends a text in an automaton that remembers which it was; it is no byte of UTF-8.
const endMark = 0xff

// LabelledChoices returns the automaton of a list of texts in UTF-8 that remembers which of them
// it has read, and for each of its states the index of the text that ends there, -1 for none. With
// spaced, any number of spaces and newlines may follow; a text that ends with some may be taken
// for another.
func LabelledChoices(texts []string, spaced bool, budget *Budget) (d *DFA, ends []int32,
	err error) {

	b := NewBuilder(budget)
	from, to := b.AddState(), b.AddState()
	for i, t := range texts {
		s := b.AddText(from, t)
		if spaced {
			b.AddRange(s, s, ' ', ' ')
			b.AddRange(s, s, '\n', '\n')
		}
		// What follows a text differs from what follows any other, so that their states stay apart.
		b.AddEmpty(b.AddText(s, string([]byte{endMark, byte(i >> 16), byte(i >> 8), byte(i)})), to)
	}
	marked, err := b.Build(from, to)
	if err != nil {
		return nil, nil, err
	}
	d, ends = marked.labelled()
	return d, ends, nil
}

// labelled returns an automaton without the marks of Labelled, and what they say of its states.
func (d *DFA) labelled() (out *DFA, ends []int32) {
	out = &DFA{first: []int32{0}}
	kept := newNumbering(d.States())
	kept.of(d.start)
	for i := 0; i < len(kept.order); i++ {
		end := int32(-1)
		for _, e := range d.Out(kept.order[i]) {
			if e.Lo == endMark {
				end = 0
				for s := e.To; !d.accept[s]; s = d.Out(s)[0].To {
					end = end<<8 | int32(d.Out(s)[0].Lo)
				}
				continue
			}
			out.edges = append(out.edges, Edge{e.Lo, e.Hi, kept.of(e.To)})
		}
		out.first = append(out.first, int32(len(out.edges)))
		out.accept = append(out.accept, end >= 0)
		ends = append(ends, end)
	}
	return out, ends
}
