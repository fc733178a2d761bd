package grammar

// Choices returns the automaton of a list of texts. The error is that of the budget.
func Choices(texts []string, budget *Budget) (*DFA, error) {
	b := NewBuilder(budget)
	source := b.AddState()
	target := b.AddState()
	for _, t := range texts {
		b.AddEmpty(b.AddText(source, t), target)
	}
	return b.Build(source, target)
}

// endMark ends a text in an automaton that remembers which it was; it is no byte of UTF-8.
const endMark = 0xff

// LabelledChoices returns the automaton of a list of texts in UTF-8 that remembers which of them it
// has read, and for each of its states the index of the text that ends there, -1 for none.
//
// With spaced, any number of spaces and newlines may follow. A text that itself ends with some may
// then be taken for another. The error is that of the budget.
func LabelledChoices(texts []string, spaced bool, budget *Budget) (d *DFA, labels []int32,
	err error) {

	b := NewBuilder(budget)
	source := b.AddState()
	target := b.AddState()
	for i, t := range texts {
		end := b.AddText(source, t)
		if spaced {
			b.AddRange(end, end, ' ', ' ')
			b.AddRange(end, end, '\n', '\n')
		}
		// A mark with the index follows each text. Without it, all ends would be one state of the minimal
		// automaton.
		mark := string([]byte{endMark, byte(i >> 16), byte(i >> 8), byte(i)})
		b.AddEmpty(b.AddText(end, mark), target)
	}
	marked, err := b.Build(source, target)
	if err != nil {
		return nil, nil, err
	}
	d, labels = marked.removeMarks()
	return d, labels, nil
}

// removeMarks returns an automaton without the marks of LabelledChoices, and the indexes in the
// marks that followed its states.
func (d *DFA) removeMarks() (out *DFA, labels []int32) {
	out = &DFA{first: []int32{0}}
	numbers := newNumbering(d.States())
	numbers.numberOf(d.start)
	for i := 0; i < len(numbers.order); i++ {
		label := int32(-1)
		for _, e := range d.Out(numbers.order[i]) {
			if e.Lo == endMark {
				label = d.readMark(e.To)
				continue
			}
			out.edges = append(out.edges, Edge{e.Lo, e.Hi, numbers.numberOf(e.To)})
		}
		out.first = append(out.first, int32(len(out.edges)))
		out.accept = append(out.accept, label >= 0)
		labels = append(labels, label)
	}
	return out, labels
}

// readMark returns the index whose bytes lead from a state to the end. Of a text that is listed
// twice it is the first: the edges of a state are sorted.
func (d *DFA) readMark(s int32) int32 {
	index := int32(0)
	for !d.accept[s] {
		e := d.Out(s)[0]
		index = index<<8 | int32(e.Lo)
		s = e.To
	}
	return index
}
