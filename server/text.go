package server

import (
	"slices"
	"strings"

	"unmask"
	"unmask/generate"
	"unmask/internal/jsonline"
	"unmask/server/engine"
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

// logProbs is OpenAI's list of the log-probabilities of tokens when they opened.
type logProbs struct {
	Tokens []string   `json:"tokens"`
	LogP   []*float64 `json:"token_logprobs"` // null where it is not known, as of what was given
	// null if not asked for; else by text, null where it is not known
	Top     []map[string]float64 `json:"top_logprobs"`
	Offsets []int                `json:"text_offset"`
}

// logProbs returns the log-probabilities of tokens of a finished sequence's text.
func (f *textForm) logProbs(m *engine.Member, tokens []unmask.Token) *logProbs {
	out := &logProbs{Tokens: []string{}, LogP: []*float64{}, Offsets: []int{}}
	for _, t := range tokens {
		out.Tokens = append(out.Tokens, validText(t.Bytes))
		out.LogP = append(out.LogP, jsonline.Finite(m.LogP[t.Position]))
		out.Offsets = append(out.Offsets, t.Offset-tokens[0].Offset)
		if m.Top != nil {
			out.Top = append(out.Top, f.topOf(m, t))
		}
	}
	return out
}

// validText returns bytes as a text, with U+FFFD for a part of a character.
func validText(bytes string) string { return strings.ToValidUTF8(bytes, "\ufffd") }

// topOf returns the most probable tokens at a token's position by text, and the token, nil where
// they are not known. Of tokens with one text it has the most probable one.
func (f *textForm) topOf(m *engine.Member, t unmask.Token) map[string]float64 {
	list := m.Top[t.Position]
	if list == nil {
		return nil
	}
	if own := jsonline.Finite(m.LogP[t.Position]); own != nil {
		list = append(slices.Clip(list), generate.Likely{Token: t.ID, LogP: *own})
	}
	out := map[string]float64{}
	for _, l := range list {
		text, ok := f.model.Text.Token(l.Token)
		text = validText(text)
		if _, has := out[text]; ok && !has {
			out[text] = l.LogP
		}
	}
	return out
}
