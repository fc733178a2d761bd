package server

import (
	"slices"
	"strings"

	"unmask"
	"unmask/generate"
	"unmask/internal/jsonline"
)

// textForm is how a choice is answered: its text, and whether with log-probabilities.
type textForm struct {
	*unmask.Answer
	LogProbs bool
	model    *servedModel
}

// textForm returns the form of a choice that a request became; only what is filled in is shown.
func (m *servedModel) textForm(r *unmask.Request, q *generate.Request, logs bool) textForm {
	f := textForm{m.AnswerOf(r, q), logs, m}
	f.Alone()
	return f
}

// textChoice is one answer.
type textChoice struct {
	*unmask.Shown
	logP []float64
	top  [][]generate.Likely // nil: not asked for
	form *textForm
}

// choice returns the answer of a sequence, masked positions shown as holes.
func (f *textForm) choice(tokens []int32, logP []float64, top [][]generate.Likely) textChoice {
	return textChoice{f.Shown(tokens), logP, top, f}
}

// logProbs is OpenAI's list of the log-probabilities of tokens when they opened.
type logProbs struct {
	Tokens []string   `json:"tokens"`
	LogP   []*float64 `json:"token_logprobs"` // null where it is not known, as of what was given
	// null if not asked for; else by text, null where it is not known
	Top     []map[string]float64 `json:"top_logprobs"`
	Offsets []int                `json:"text_offset"`
}

func (c *textChoice) logProbs() *logProbs { return c.logProbsOf(c.Tokens()) }

// logProbsOf returns the log-probabilities of some of the text's tokens.
func (c *textChoice) logProbsOf(tokens []unmask.Token) *logProbs {
	out := &logProbs{Tokens: []string{}, LogP: []*float64{}, Offsets: []int{}}
	for _, t := range tokens {
		out.Tokens = append(out.Tokens, validText(t.Bytes))
		out.LogP = append(out.LogP, jsonline.Finite(c.logP[t.Position]))
		out.Offsets = append(out.Offsets, t.Offset-tokens[0].Offset)
		if c.top != nil {
			out.Top = append(out.Top, c.topOf(t))
		}
	}
	return out
}

// validText returns bytes as a text, with U+FFFD for a part of a character.
func validText(bytes string) string { return strings.ToValidUTF8(bytes, "\ufffd") }

// topOf returns the most probable tokens at a token's position by text, and the token, nil where
// they are not known. Of tokens with one text it has the most probable one.
func (c *textChoice) topOf(t unmask.Token) map[string]float64 {
	list := c.top[t.Position]
	if list == nil {
		return nil
	}
	if own := jsonline.Finite(c.logP[t.Position]); own != nil {
		list = append(slices.Clip(list), generate.Likely{Token: t.ID, LogP: *own})
	}
	out := map[string]float64{}
	for _, l := range list {
		text, ok := c.form.model.Text.Token(l.Token)
		text = validText(text)
		if _, has := out[text]; ok && !has {
			out[text] = l.LogP
		}
	}
	return out
}
