package constrain

import "unmask/grammar"

// Choices are the texts of a language that is a list of them.
type Choices struct {
	Texts  []string
	TextAt []int32 // [states] the text that ends in a state, by index, or -1
}

// NewChoices returns the choices of an automaton over tokens, given which text ends in each state
// over bytes, as grammar.LabelledChoices returns it.
func NewChoices(texts []string, t *grammar.Tokens, ends []int32) *Choices {
	a := &Choices{Texts: texts}
	for _, s := range t.ByteState {
		end := int32(-1)
		if s >= 0 {
			end = ends[s]
		}
		a.TextAt = append(a.TextAt, end)
	}
	return a
}

// Bytes returns about how much memory the choices hold.
func (a *Choices) Bytes() int {
	n := 4 * len(a.TextAt)
	for _, t := range a.Texts {
		n += 16 + len(t)
	}
	return n
}

// Choice is a text of a list, with its probability.
type Choice struct {
	Text        string  `json:"text"`
	Probability float64 `json:"probability"`
}

// choices returns the probabilities of the language's texts: all ways to spell one count together.
func (c *Chain) choices() []Choice {
	a := c.l.Choices
	out := make([]Choice, len(a.Texts))
	for i, text := range a.Texts {
		out[i].Text = text
	}
	n, end := len(c.tokens), c.l.End()
	for i := range n { // texts that end before position i, where a token says so
		part, whole := make([]float64, len(out)), 0.0
		c.seek(i)
		c.edges(i, func(e grammar.TokenEdge, from int, to int32) {
			p := c.f[from] * c.b[i+1][to] * c.weight(i, e.Set)
			whole += p
			if s := c.states[i][from]; e.To == end && s != end {
				part[a.TextAt[s]] += p
			}
		})
		for k, p := range part {
			out[k].Probability += p / whole
		}
	}
	c.seek(n)
	whole := 0.0
	for k := range c.states[n] {
		whole += c.f[k]
	}
	for k, s := range c.states[n] { // those that end with the positions
		if s != end {
			out[a.TextAt[s]].Probability += c.f[k] / whole
		}
	}
	for i := range out {
		out[i].Probability = min(out[i].Probability, 1) // rounding
	}
	return out
}
