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

// choiceProgress is how much of one choice's text the client has.
type choiceProgress struct {
	// tokens are the choice's tokens after the latest step, masks among them.
	tokens []int32

	// sentBytes counts the bytes of settled text that were sent. Text that was sent never changes,
	// so the next piece begins here.
	sentBytes int

	calls toolCallStream

	// hasBegun reports whether a piece was sent.
	hasBegun bool
}

// unsent returns what has settled of a text since the last call, "" for nothing.
func (p *choiceProgress) unsent(settled string) string {
	delta := settled[min(p.sentBytes, len(settled)):]
	p.sentBytes += len(delta)
	return delta
}

// textStream is a stream of one call's texts.
type textStream struct {
	*stream
	call    *call
	writer  streamWriter
	options streamOptions

	// choices has an element for each choice.
	choices []*choiceProgress

	// unfinished counts the choices whose final piece was not sent.
	unfinished int
}

// sendTexts streams text as it settles, or the whole text so far.
func (s *stream) sendTexts(c *call, options streamOptions) error {
	t := &textStream{
		stream:     s,
		call:       c,
		writer:     c.wire.newStreamWriter(),
		options:    options,
		unfinished: len(c.Members),
	}
	for _, m := range c.Members {
		t.choices = append(t.choices, &choiceProgress{tokens: slices.Clone(m.Start())})
	}
	err := s.follow(c, func(_ int, e engine.Event) error { return t.sendStep(&e) })
	return s.finish(c, err, func(a *answer, f *Fault) error {
		return t.writer.writeEnd(s, c, a, f, options.withUsage)
	})
}

// sendStep sends what is new after a step, if there is anything.
func (t *textStream) sendStep(e *engine.Event) error {
	choice := t.choices[e.Choice]
	choice.tokens = e.Apply(choice.tokens, t.call.model.spec.Mask)
	update := choiceUpdate{index: e.Choice, form: &t.call.textForms[e.Choice], isDelta: true}
	var step *stepInfo
	if t.options.withSteps {
		step = &stepInfo{Step: e.Step.Step, Steps: e.Steps, Opened: e.Opened,
			Closed: append([]int{}, e.Closed...), Resized: e.Resized}
	}

	if e.Done {
		return t.sendFinal(update, step)
	}
	if t.options.form == streamsDiffusing {
		update.text = update.form.Render(choice.tokens).Text
	} else {
		update.text = choice.unsent(update.form.Settled(choice.tokens, e.Settled))
	}
	return t.sendUpdate(update, step, nil)
}

// sendFinal sends the final piece of one choice: the rest of its text and its finish reason.
//
// The choice that finishes last also carries the report of how the whole answer was made (recipe,
// passes, time), because only then is that report complete.
func (t *textStream) sendFinal(update choiceUpdate, step *stepInfo) error {
	update.setFinished(t.call.Members[update.index])
	if t.options.form != streamsDiffusing {
		update.text = t.choices[update.index].unsent(update.text)
	}
	t.unfinished--
	if t.unfinished > 0 {
		return t.sendUpdate(update, step, nil)
	}

	if err := t.call.Wait(t.ctx); err != nil {
		return err
	}
	if _, f := callResult(t.call.Call); f != nil {
		return f
	}
	info := t.call.info()
	return t.sendUpdate(update, step, &info)
}

// sendUpdate writes what is new of a choice, its calls split from its text. Of the field unmask,
// step is the step and report is how everything was made; both may be nil.
func (t *textStream) sendUpdate(update choiceUpdate, step *stepInfo, report *unmaskInfo) error {
	choice := t.choices[update.index]
	if update.form.Calls != nil {
		choice.calls.addText(t.call, &update)
	}
	if update.text == "" && update.calls == nil && update.finish == "" && step == nil {
		return nil
	}
	update.isFirst = !choice.hasBegun
	choice.hasBegun = true

	var info any
	if step != nil {
		info = struct {
			*stepInfo
			Run *unmaskInfo `json:"run,omitempty"`
		}{step, report}
	} else if report != nil {
		info = report
	}
	return t.writer.writeUpdate(t.stream, t.call, &update, info)
}

// textForm is how a choice is answered: its text, and whether with log-probabilities.
type textForm struct {
	*unmask.Answer
	LogProbs bool
	model    *servedModel
}

// textForm returns the form of a choice whose request r became prepared. Only what is filled in is
// shown.
func (m *servedModel) textForm(r *unmask.Request, prepared *generate.Request,
	logProbs bool) textForm {
	f := textForm{m.AnswerOf(r, prepared), logProbs, m}
	f.HidePrompt()
	return f
}

// logProbs is OpenAI's list of the log-probabilities of tokens when they opened.
type logProbs struct {
	Tokens []string `json:"tokens"`

	// LogP is null where it is not known, as of a prompt's tokens.
	LogP []*float64 `json:"token_logprobs"`

	// Top is null if the request did not ask for it. Its elements are by text, null where they are
	// not known.
	Top []map[string]float64 `json:"top_logprobs"`

	Offsets []int `json:"text_offset"`
}

// logProbs returns the log-probabilities of tokens of a finished sequence's text.
func (f *textForm) logProbs(m *engine.Member, tokens []unmask.Token) *logProbs {
	out := &logProbs{Tokens: []string{}, LogP: []*float64{}, Offsets: []int{}}
	for _, t := range tokens {
		out.Tokens = append(out.Tokens, validText(t.Bytes))
		out.LogP = append(out.LogP, jsonline.FiniteOrNil(m.LogP[t.Position]))
		out.Offsets = append(out.Offsets, t.Offset-tokens[0].Offset)
		if m.Top != nil {
			out.Top = append(out.Top, f.topByText(m, t))
		}
	}
	return out
}

// validText returns bytes as a text, with U+FFFD for a part of a character.
func validText(bytes string) string { return strings.ToValidUTF8(bytes, "\ufffd") }

// topByText returns the most probable tokens at a token's position by text, and the token, nil
// where they are not known. Of tokens with one text it has the most probable one.
func (f *textForm) topByText(m *engine.Member, t unmask.Token) map[string]float64 {
	top := m.Top[t.Position]
	if top == nil {
		return nil
	}
	if logP := jsonline.FiniteOrNil(m.LogP[t.Position]); logP != nil {
		top = append(slices.Clip(top), generate.TopToken{Token: t.ID, LogP: *logP})
	}
	byText := map[string]float64{}
	for _, candidate := range top {
		text, ok := f.model.Text.Token(candidate.Token)
		text = validText(text)
		if _, seen := byText[text]; ok && !seen {
			byText[text] = candidate.LogP
		}
	}
	return byText
}
