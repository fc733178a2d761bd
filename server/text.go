package server

import (
	"slices"
	"strings"

	"unmask"
	"unmask/generate"
	"unmask/generate/traces"
	"unmask/internal/jsonline"
	"unmask/server/engine"
)

// stepInfo describes a step in a chunk, if include_steps asks for it.
type stepInfo struct {
	Step   int            `json:"step"`
	Steps  int            `json:"steps"`
	Opened []traces.Piece `json:"opened"`
	Closed []int          `json:"closed"`

	Resized []generate.Resize `json:"resized,omitempty"`
}

// settling follows one sequence, of which text settles.
type settling struct {
	tokens []int32
	sent   int // bytes
	calls  callStream
	begun  bool // a piece was sent
}

// delta returns what has settled of a text since the last call, "" for nothing.
func (s *settling) delta(settled string) string {
	delta := settled[min(s.sent, len(settled)):]
	s.sent += len(delta)
	return delta
}

// textStream is a stream of one call's texts.
type textStream struct {
	*stream
	call      *call
	to        writer
	form      streaming
	settlings []*settling // by choice
	open      int         // choices whose last piece was not sent
}

// texts streams text as it settles, or the whole text so far.
func (s *stream) texts(made *call, st streaming) error {
	t := &textStream{stream: s, call: made, to: made.wire.writer(), form: st,
		open: len(made.Members)}
	for _, m := range made.Members {
		t.settlings = append(t.settlings, &settling{tokens: slices.Clone(m.Start())})
	}
	err := s.follow(made, func(_ int, e engine.Event) error { return t.step(&e) })
	return s.finish(made, err, func(a *answer, f *Fault) error {
		return t.to.end(s, made, a, f, st.usage)
	})
}

// step sends what is new after a step, if there is anything to say.
func (t *textStream) step(e *engine.Event) error {
	q := t.settlings[e.Choice]
	q.tokens = e.Apply(q.tokens, t.call.model.spec.Mask)
	p := saying{index: e.Choice, form: &t.call.forms[e.Choice], part: true}
	var step *stepInfo
	if t.form.steps {
		step = &stepInfo{Step: e.Step.Step, Steps: e.Steps, Opened: e.Opened,
			Closed: append([]int{}, e.Closed...), Resized: e.Resized}
	}
	switch {
	case e.Done:
		return t.last(p, step)
	case t.form.form == "diffusing":
		p.text = p.form.Render(q.tokens).Text
	default:
		p.text = q.delta(p.form.Settled(q.tokens))
	}
	return t.say(p, step, nil)
}

// last sends the last of a choice, p with the rest of the text. The last choice waits for the
// answer, whose making it tells.
func (t *textStream) last(p saying, step *stepInfo) error {
	p.finished(t.call.Members[p.index])
	if t.form.form != "diffusing" {
		p.text = t.settlings[p.index].delta(p.text)
	}
	if t.open--; t.open > 0 {
		return t.say(p, step, nil)
	}
	if err := t.call.Wait(t.ctx); err != nil {
		return err
	}
	if _, f := resultOf(t.call.Call); f != nil {
		return f
	}
	info := t.call.info()
	return t.say(p, step, &info)
}

// say writes what is new of a choice, its calls divided from its text. Of the field unmask, step is
// the step and run how everything was made; both may be nil.
func (t *textStream) say(p saying, step *stepInfo, run *unmaskInfo) error {
	q := t.settlings[p.index]
	if p.form.Calls != nil {
		q.calls.take(t.call, &p)
	}
	if p.text == "" && p.calls == nil && p.finish == "" && step == nil {
		return nil
	}
	p.begins, q.begun = !q.begun, true
	var info any
	if step != nil {
		info = struct {
			*stepInfo
			Run *unmaskInfo `json:"run,omitempty"`
		}{step, run}
	} else if run != nil {
		info = run
	}
	return t.to.piece(t.stream, t.call, &p, info)
}

// textForm is how a choice is answered: its text, and whether with log-probabilities.
type textForm struct {
	*unmask.Answer
	LogProbs bool
	model    *servedModel
}

// textForm returns the form of a choice that a request became; only what is filled in is shown.
func (m *servedModel) textForm(r *unmask.Request, q *generate.Request, logs bool) textForm {
	f := textForm{m.AnswerOf(r, q), logs, m}
	f.HidePrompt()
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
		out.LogP = append(out.LogP, jsonline.FiniteOrNil(m.LogP[t.Position]))
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
	if own := jsonline.FiniteOrNil(m.LogP[t.Position]); own != nil {
		list = append(slices.Clip(list), generate.TopToken{Token: t.ID, LogP: *own})
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
