package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"

	"unmask/generate"
	"unmask/runs"
	"unmask/runs/outputs"
)

// Log writes a message to standard error as a line, like Logf.
func Log(text string) { Logf("%s", text) }

// Display says how a run is shown while it works. The zero Display shows a Progress.
type Display struct {
	// Watch redraws the first sample of a batch instead, see Watcher.
	Watch bool

	// Trace is the file for the trace, "" for none.
	Trace string

	// Name is that of the model, in the trace.
	Name string
}

// MakeSamples makes samples of a job and puts them to out; see outputs.MakeSamples. h's own hooks
// run too. The first signal ends the run after a step, with an error that is outputs.ErrStopped;
// see WithSignals.
func (s Display) MakeSamples(ctx context.Context, j *outputs.Job, list []runs.Span,
	out outputs.Output, h outputs.Hooks) error {
	trace, err := outputs.OpenTrace(s.Trace, s.Name, j, Log)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	ctx = GracefulContext(ctx)

	p, showStep := newSampleProgress(j, list)
	if s.Watch {
		w := NewWatcher(j.Model, os.Stderr)
		if j.Model.Text != nil {
			w.answer = j.Requests.Answer(0)
		}
		defer w.Clear()
		out = clearingOutput{out, w}
		showStep = w.Draw
	}

	callerStep := h.Step
	h.Step = func(step *generate.Step) error {
		showStep(step)
		if callerStep != nil {
			if err := callerStep(step); err != nil {
				return err
			}
		}
		return trace.Step(step)
	}
	h.Stop = func() bool { return StopRequested(ctx) }

	runErr := outputs.MakeSamples(ctx, j, list, out, h)
	p.Close()
	stopped := errors.Is(runErr, outputs.ErrStopped)
	if stopped {
		Log(runErr.Error())
	}
	// The error of the run says more than one of its trace.
	err = trace.Close(runErr)
	if err != nil && (runErr == nil || stopped) {
		return fmt.Errorf("trace: %w", err)
	}
	return runErr
}

// newSampleProgress returns a Progress of samples, or of the steps of the only one, and the
// function that counts a step. A sample that has begun counts as the share of its steps.
func newSampleProgress(j *outputs.Job, list []runs.Span) (*Progress, func(*generate.Step)) {
	n := outputs.CountSamples(list)
	if n <= 1 {
		p := NewProgress("steps", max(1, j.Steps(list)))
		return p, func(*generate.Step) { p.Add(1) }
	}

	label := "samples"
	if j.Model.Pictures != nil {
		label = "images"
	}
	finished := 0
	p := NewProgress(label, int64(n))
	return p, func(step *generate.Step) {
		partial := 0.0
		for _, q := range step.Sequences {
			if q.Finished {
				finished++
			} else if !q.Done {
				partial += float64(q.N) / float64(max(1, q.Steps))
			}
		}
		p.Set(int64(finished) + int64(partial))
	}
}

// EnlargePictures draws enlarged pictures and shows a Progress. The first signal ends it.
func EnlargePictures(ctx context.Context, out *outputs.Pictures) error {
	p := NewProgress("images", int64(outputs.CountSamples(out.Missing())))
	defer p.Close()
	err := out.Enlarge(ctx, func() { p.Add(1) })
	if StopRequested(ctx) {
		return outputs.ErrStopped
	}
	return err
}

// clearingOutput is an Output that removes a watcher's drawing before samples are put: they may be
// printed on the same terminal.
type clearingOutput struct {
	outputs.Output
	w *Watcher
}

// Put implements outputs.Output.
func (c clearingOutput) Put(samples []outputs.Sample) error {
	c.w.Clear()
	return c.Output.Put(samples)
}
