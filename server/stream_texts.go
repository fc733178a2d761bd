package server

import (
	"math"
	"slices"

	"unmask/generate"
	"unmask/generate/traces"
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

// settling follows one sequence and returns the text that can no longer change.
type settling struct {
	form   *textForm
	tokens []int32
	logP   []float64
	top    [][]generate.Likely // set when all is open
	sent   int                 // bytes
	calls  callStream
	begun  bool // a piece was sent
}

func newSettling(m *engine.Member, form *textForm) *settling {
	return &settling{form: form, tokens: slices.Clone(m.Start()), logP: m.Followed}
}

// take applies a step.
func (s *settling) take(e *engine.Event) {
	s.tokens = e.Apply(s.tokens, s.form.model.spec.Mask)
	if len(e.Resized) > 0 {
		s.logP = generate.Follow(slices.Clone(s.logP), e.Resized, math.NaN())
	}
}

// choice returns the answer so far, with holes.
func (s *settling) choice() textChoice { return s.form.choice(s.tokens, s.logP, s.top) }

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
	for i, m := range made.Members {
		t.settlings = append(t.settlings, newSettling(m, &made.forms[i]))
	}
	err := s.follow(made, func(_ int, e engine.Event) error { return t.step(&e) })
	return s.finish(made, err, func(a *answer, f *Fault) error {
		return t.to.end(s, made, a, f, st.usage)
	})
}

// step sends what is new after a step, if there is anything to say.
func (t *textStream) step(e *engine.Event) error {
	q := t.settlings[e.Choice]
	q.take(e)
	p := saying{index: e.Choice, form: q.form, part: true}
	var step *stepInfo
	if t.form.steps {
		step = &stepInfo{Step: e.Step.Step, Steps: e.Steps, Opened: e.Opened,
			Closed: append([]int{}, e.Closed...), Resized: e.Resized}
	}
	if e.Done { // positions after the text's end have no event
		m := t.call.Members[e.Choice]
		q.tokens, q.logP, q.top = m.Tokens, m.LogP, m.Top
		return t.last(p, step)
	}
	if t.form.form == "diffusing" {
		p.text = q.choice().Text
	} else {
		p.text = q.delta(q.form.Settled(q.tokens))
	}
	return t.say(p, step, nil)
}

// last sends the last of a choice, p with the rest of the text. The last choice waits for the
// answer, whose making it tells.
func (t *textStream) last(p saying, step *stepInfo) error {
	q := t.settlings[p.index]
	whole := q.choice()
	if p.text = q.delta(whole.Text); t.form.form == "diffusing" {
		p.text = whole.Text
	}
	p.finish, p.shown, p.likely = whole.Finish, &whole, t.call.Members[p.index].Choices
	if t.open--; t.open > 0 {
		return t.say(p, step, nil)
	}
	if err := t.call.Wait(t.ctx); err != nil {
		return err
	}
	if _, f := t.call.result(); f != nil {
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
