package server

import (
	"math"
	"slices"

	"unmask/constrain"
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
}

func newSettling(m *engine.Member, form *textForm) *settling {
	return &settling{form: form, tokens: slices.Clone(m.Start()), logP: m.Followed}
}

// take applies a step.
func (s *settling) take(e *engine.Event) {
	if len(e.Resized) > 0 {
		s.tokens = generate.Follow(s.tokens, e.Resized, s.form.model.spec.Mask)
		s.logP = generate.Follow(slices.Clone(s.logP), e.Resized, math.NaN())
	}
	for _, o := range e.Opened {
		s.tokens[o.Position] = o.Token
	}
	for _, p := range e.Closed {
		s.tokens[p] = s.form.model.spec.Mask
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

// chunker writes the parts of a stream of texts.
type chunker interface {
	forms() []textForm
	chunk(s *stream, w *call, p part) error
	// end writes what comes after all choices: the answer is a, or f is why there is none. count says
	// that the client wants to know how many tokens there are.
	end(s *stream, w *call, a *answer, f *Fault, count bool) error
}

// part is the content of one chunk.
type part struct {
	choice int
	text   string
	finish string // "" but for the choice's last chunk

	stopped string             // the text of stop that ended it, in its last chunk
	logs    *textChoice        // of the choice, in its last chunk, where they are asked for
	likely  []constrain.Choice // of guided_choice, in its last chunk
	step    *stepInfo
	last    *lastChunk // nil but for the last chunk of all
}

// lastChunk has the fields that only the last chunk of all choices has.
type lastChunk struct{ info unmaskInfo }

// textStream is a stream of one call's texts.
type textStream struct {
	*stream
	call      *call
	chunker   chunker
	form      streaming
	settlings []*settling // by choice
	open      int         // choices whose last chunk was not sent
}

// texts streams text as it settles, or the whole text so far.
func (s *stream) texts(made *call, c chunker, st streaming) error {
	t := &textStream{stream: s, call: made, chunker: c, form: st, open: len(made.Members)}
	forms := c.forms()
	for i, m := range made.Members {
		t.settlings = append(t.settlings, newSettling(m, &forms[i]))
	}
	err := s.follow(made, 0, func(_ int, e engine.Event) error { return t.step(&e) })
	a, f, err := made.outcome(err)
	if err != nil {
		return err
	}
	if f != nil && !s.begun {
		f.write(s.w)
		return nil
	}
	if err := c.end(s, made, a, f, st.usage); err != nil {
		return err
	}
	return s.flush()
}

// done ends one of OpenAI's streams: [DONE], after the tokens where counted makes a chunk of them.
func (s *stream) done(a *answer, f *Fault, counted func(usage) any) error {
	if f != nil {
		return s.send("", "", f.JSON())
	}
	if used, ok := a.parts.(usage); ok && counted != nil {
		if err := s.send("", "", encode(counted(used))); err != nil {
			return err
		}
	}
	return s.send("", "", []byte("[DONE]"))
}

// step sends the chunk of a step, if there is anything to say.
func (t *textStream) step(e *engine.Event) error {
	q := t.settlings[e.Choice]
	q.take(e)
	p := part{choice: e.Choice}
	if t.form.steps {
		p.step = &stepInfo{Step: e.Step.Step, Steps: e.Steps, Opened: e.Opened, Closed: e.Closed,
			Resized: e.Resized}
		if p.step.Closed == nil {
			p.step.Closed = []int{}
		}
	}
	if e.Done { // positions after the text's end have no event
		m := t.call.Members[e.Choice]
		q.tokens, q.logP, q.top = m.Tokens, m.LogP, m.Top
		return t.last(p)
	}
	if t.form.form == "diffusing" {
		p.text = q.choice().Text
	} else {
		p.text = q.delta(q.form.Settled(q.tokens))
	}
	if p.text == "" && p.step == nil {
		return nil
	}
	return t.chunker.chunk(t.stream, t.call, p)
}

// last sends a choice's last chunk, p with the rest of the text. The last choice waits for the
// answer, whose usage its chunk has.
func (t *textStream) last(p part) error {
	q := t.settlings[p.choice]
	whole := q.choice()
	p.text = q.delta(whole.Text)
	if p.finish, p.stopped = whole.Finish, whole.Stop; t.form.form == "diffusing" {
		p.text = whole.Text
	}
	if q.form.LogProbs {
		p.logs = &whole
	}
	p.likely = t.call.Members[p.choice].Choices
	if t.open--; t.open == 0 {
		if err := t.call.Wait(t.ctx); err != nil {
			return err
		}
		if _, f := t.call.result(); f != nil {
			return f
		}
		p.last = &lastChunk{info: t.call.info()}
	}
	return t.chunker.chunk(t.stream, t.call, p)
}

// completionChunks makes the chunks of /v1/completions.
type completionChunks []textForm

func (c completionChunks) forms() []textForm { return c }

func (c completionChunks) chunk(s *stream, w *call, p part) error {
	out := w.completion()
	choice := completionChoice{Index: p.choice, Text: p.text, Choices: p.likely}
	if p.finish != "" {
		choice.Finish = &p.finish
	}
	if p.logs != nil {
		choice.LogProbs = p.logs.logProbs()
	}
	out.Choices, out.Unmask = []completionChoice{choice}, p.info()
	return s.send("", "", encode(out))
}

func (c completionChunks) end(s *stream, w *call, a *answer, f *Fault, count bool) error {
	if !count {
		return s.done(a, f, nil)
	}
	return s.done(a, f, func(used usage) any {
		out := w.completion()
		out.Choices, out.Usage = []completionChoice{}, &used
		return out
	})
}

// info is a chunk's field unmask: the step, and in the last chunk how everything was made.
func (p *part) info() any {
	switch {
	case p.step == nil && p.last == nil:
		return nil
	case p.last == nil:
		return p.step
	case p.step == nil:
		return p.last.info
	}
	return struct {
		*stepInfo
		Run unmaskInfo `json:"run"`
	}{p.step, p.last.info}
}
