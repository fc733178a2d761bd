package constrain

import "unmask/grammar"

// Choices are the texts of a language that is a list of them.
type Choices struct {
	Texts []string

	// TextAt is the text that ends in a state, by index, or -1; [states].
	TextAt []int32
}

// NewChoices returns the choices of an automaton over tokens, given which text ends in each state
// over bytes, as grammar.LabelledChoices returns it.
func NewChoices(texts []string, t *grammar.Tokens, ends []int32) *Choices {
	c := &Choices{Texts: texts}
	for _, state := range t.ByteState {
		text := int32(-1)
		if state >= 0 {
			text = ends[state]
		}
		c.TextAt = append(c.TextAt, text)
	}
	return c
}

// Bytes returns about how much memory the choices hold.
func (c *Choices) Bytes() int {
	n := 4 * len(c.TextAt)
	for _, text := range c.Texts {
		n += 16 + len(text)
	}
	return n
}

// Choice is a text of a list, with its probability.
type Choice struct {
	Text        string  `json:"text"`
	Probability float64 `json:"probability"`
}

// choiceProbabilities returns the probabilities of the language's texts: all ways to spell one
// count together.
func (c *Chain) choiceProbabilities() []Choice {
	list := c.l.Choices
	choices := make([]Choice, len(list.Texts))
	for i, text := range list.Texts {
		choices[i].Text = text
	}
	n := len(c.tokens)
	end := c.l.End()

	// Where a token says so, a text ends before position i: an edge leads from its last state to the
	// automaton's end.
	for i := range n {
		ending := make([]float64, len(choices))
		whole := 0.0
		c.seekForward(i)
		c.visitLiveEdges(i, func(e grammar.TokenEdge, fromIndex int, toIndex int32) {
			p := c.forward[fromIndex] * c.backward[i+1][toIndex] * c.probability(i, e.Set)
			whole += p
			if state := c.states[i][fromIndex]; e.To == end && state != end {
				ending[list.TextAt[state]] += p
			}
		})
		for k, p := range ending {
			choices[k].Probability += p / whole
		}
	}

	// The others end with the positions.
	c.seekForward(n)
	whole := 0.0
	for k := range c.states[n] {
		whole += c.forward[k]
	}
	for k, state := range c.states[n] {
		if state != end {
			choices[list.TextAt[state]].Probability += c.forward[k] / whole
		}
	}
	for i := range choices {
		choices[i].Probability = min(choices[i].Probability, 1) // rounding
	}
	return choices
}
