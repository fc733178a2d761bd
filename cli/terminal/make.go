package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"

	"unmask"
	"unmask/generate"
	"unmask/runs/outputs"
)

// Line writes a message to standard error, like Say.
func Line(text string) { Say("%s", text) }

// Show says how a run is shown. The zero Show is a Progress of its steps.
type Show struct {
	Watch bool   // redraws the first sample of a batch, see Watcher
	Trace string // file for the trace, "" for none
	Name  string // of the model, in the trace
}

// Make makes the samples of a list of runs, which are parts of r, and puts them to out; see
// outputs.Make. h's own hooks run too. The first signal ends it after a step with an error that is
// outputs.ErrStopped; see WithSignals.
func (s Show) Make(ctx context.Context, m *unmask.Model, r unmask.Run, list []unmask.Run,
	out outputs.Output, h outputs.Hooks) error {
	trace, err := outputs.OpenTrace(s.Trace, s.Name, m, r, Line)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	p, draw := countSamples(m, list)
	if s.Watch {
		w := NewWatcher(m, os.Stderr)
		defer w.Clear()
		out, draw = before{out, func([]outputs.Sample) { w.Clear() }}, w.Draw
	}
	more := h.Step
	h.Step = func(step *generate.Step) error {
		draw(step)
		if more != nil {
			if err := more(step); err != nil {
				return err
			}
		}
		return trace.Step(step)
	}
	h.Stop = func() bool { return Stopped(ctx) }
	ran := p.stopped(outputs.Make(ctx, m, list, out, h))
	if err := trace.Close(ran); err != nil && (ran == nil || errors.Is(ran, outputs.ErrStopped)) {
		return fmt.Errorf("trace: %w", err)
	}
	return ran
}

// countSamples returns a Progress of a run's samples, or of the steps of its only one, and what
// counts a step.
func countSamples(m *unmask.Model, list []unmask.Run) (*Progress, func(*generate.Step)) {
	n := 0
	for _, r := range list {
		n += r.N
	}
	if n <= 1 {
		p := NewProgress("steps", outputs.Steps(list))
		return p, func(*generate.Step) { p.Add(1) }
	}
	label, finished := "samples", 0
	if m.Pictures != nil {
		label = "images"
	}
	p := NewProgress(label, int64(n))
	return p, func(step *generate.Step) {
		batch := len(step.Sequences)
		p.Set(int64(finished + batch*step.N/max(1, step.Steps)))
		if step.Done {
			finished += batch
			p.Set(int64(finished))
		}
	}
}

// MakeEach makes the samples of a list of inputs and shows a Progress. The first signal ends it;
// see outputs.MakeEach.
func MakeEach(ctx context.Context, m *unmask.Model, r unmask.Run, q *unmask.Requests,
	out outputs.Output) error {
	p := NewProgress("samples", int64(r.N))
	count := func(samples []outputs.Sample) {
		for _, s := range samples {
			if !s.Unfinished {
				p.Add(1)
			}
		}
	}
	return p.stopped(outputs.MakeEach(ctx, m, r, q, before{out, count},
		outputs.Hooks{Stop: func() bool { return Stopped(ctx) }}))
}

// Grow draws enlarged pictures and shows a Progress. The first signal ends it.
func Grow(ctx context.Context, out *outputs.Pictures) error {
	p := NewProgress("images", int64(out.Left()))
	defer p.Close()
	until, cancel := UntilStopped(ctx)
	defer cancel()
	err := out.Grow(until, func() { p.Add(1) })
	if Stopped(ctx) {
		return outputs.ErrStopped
	}
	return err
}

// stopped removes the bar and reports a run that a signal ended.
func (p *Progress) stopped(ran error) error {
	p.Close()
	if errors.Is(ran, outputs.ErrStopped) {
		Line(ran.Error())
	}
	return ran
}

// before is an Output that calls a function before samples are put.
type before struct {
	outputs.Output
	do func([]outputs.Sample)
}

// Put implements outputs.Output.
func (b before) Put(samples []outputs.Sample) error {
	b.do(samples)
	return b.Output.Put(samples)
}
