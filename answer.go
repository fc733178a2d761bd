package unmask

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"unmask/param"
)

// Answer returns the tokens of what r begins with (Prompt, Messages, Tokens or nothing) followed by
// an answer, for package likelihood: the answer is tokens[from:to]. Nothing is a prompt without
// text. Positions behind the answer are masked, if the model has sequences of one length only. A
// prompt and its answer are tokenized together, unless that would change the prompt's own tokens;
// blanks at the prompt's end belong to the answer. An answer to messages is tokenized alone.
func (m *Model) Answer(r Request, answer string) (tokens []int32, from, to int, err error) {
	refused := func(err error) ([]int32, int, int, error) { return nil, 0, 0, err }
	t := m.Text
	if t == nil {
		return refused(param.Refuse("answer", param.Unsupported, "the model makes no text"))
	}
	if err := r.checkGiven(true); err != nil {
		return refused(err)
	}
	known, after := r.Tokens, []int32(nil)
	switch {
	case r.Messages != nil:
		known, _, err = m.messageTokens(&r)
	case r.Tokens == nil:
		r.Prompt, answer = untrail(r.Prompt, answer)
		known, err = t.begin(r.Prompt, r.Special, false)
		after = t.last
		err = param.About("prompt", err)
	}
	if err != nil {
		return refused(err)
	}
	ids, err := t.Encode(answer)
	if err == nil && r.Prompt != "" {
		var whole []int32
		whole, err = t.begin(r.Prompt+answer, r.Special, false)
		if err == nil && len(whole) > len(known) && slices.Equal(whole[:len(known)], known) {
			ids = whole[len(known):]
		}
	}
	if err != nil {
		return refused(param.About("answer", err))
	}
	return m.answered(known, ids, after)
}

// untrail moves the blanks at a prompt's end to its answer, as the harnesses of LLaDA, Dream and
// dLLM do: they are part of the answer's first token.
func untrail(prompt, answer string) (string, string) {
	at := len(strings.TrimRightFunc(prompt, unicode.IsSpace))
	return prompt[:at], prompt[at:] + answer
}

// AnswerTokens is Answer for tokens that follow nothing.
func (m *Model) AnswerTokens(answer []int32) (tokens []int32, from, to int, err error) {
	return m.answered(nil, answer, nil)
}

func (m *Model) answered(known, ids, after []int32) (tokens []int32, from, to int, err error) {
	t := m.Text
	most := t.longest() - len(known) - len(after)
	if len(ids) == 0 || len(ids) > most {
		e := &param.Error{Name: "answer", Found: fmt.Sprintf("%d tokens", len(ids)),
			Want: fmt.Sprintf("1 to %d", most), Reason: param.TooLong}
		if most < 1 {
			e.Want = fmt.Sprintf("a prompt of fewer than %d", len(known)+most)
		}
		return nil, 0, 0, e
	}
	rest := 0
	if t.spec.Fixed {
		rest = most - len(ids)
	}
	from = len(t.spec.Before) + len(known)
	return t.around(slices.Concat(known, ids), rest, after), from, from + len(ids), nil
}
