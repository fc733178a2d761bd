// Package outputs makes the samples of runs and writes them: texts to a stream or a file; pictures
// to a folder, a contact sheet or a film; lines of JSON for both; and traces. Interrupted folders
// and files of lines can be continued.
package outputs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"unmask"
	"unmask/generate"
	"unmask/generate/traces"
)

// Sample is a finished sequence or, if the run was stopped, an unfinished one.
type Sample struct {
	Index      int
	Seed       uint64
	Input      *int    // its index in a list of inputs; nil: there is no list
	Tokens     []int32 // [length], masks where Unfinished
	Steps      int
	Seconds    float64 // from the start of its batch
	Evaluated  generate.Evaluated
	Opening    *traces.Opening // when each position opened, and the probability of its token
	Unfinished bool
}

// Output receives samples.
type Output interface {
	// Put receives the samples that a step finished, by index. All samples of a batch come before
	// those of the next. Unfinished samples of a stopped run come last.
	Put(samples []Sample) error
}

// Hooks observe a run. The zero Hooks do nothing.
type Hooks struct {
	// is called with each step before its samples are put; an error ends the run
	Step func(*generate.Step) error
	Stop func() bool // is called after each step; true ends the run with *Stopped

	// Behind puts samples in another goroutine, at most one batch later.
	Behind bool
}

// ErrStopped matches [Stopped] in errors.Is.
var ErrStopped = errors.New("interrupted")

// Stopped is the error of a run that Hooks.Stop ended after Step of Steps steps, counted over all
// batches; Steps is 0 if the samples were at different steps.
type Stopped struct{ Step, Steps int }

// Error implements error.
func (s *Stopped) Error() string {
	if s.Steps == 0 {
		return "interrupted"
	}
	return fmt.Sprintf("interrupted after step %d of %d", s.Step, s.Steps)
}

// Is reports whether target is ErrStopped.
func (s *Stopped) Is(target error) bool { return target == ErrStopped }

// Make runs a list of runs, each completed by Model.Check, and puts their samples to out.
func Make(ctx context.Context, m *unmask.Model, list []unmask.Run, out Output, h Hooks) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	put, finish := out.Put, func() error { return nil }
	if h.Behind {
		put, finish = behind(out.Put, cancel)
	}
	var failed error
	at := Stopped{Steps: int(Steps(list))}
	for _, r := range list {
		if failed = one(ctx, m, r, put, h, &at); failed != nil {
			break
		}
	}
	if err := finish(); err != nil {
		return err
	}
	return failed
}

// one makes the samples of one run and adds its steps to at.
func one(ctx context.Context, m *unmask.Model, r unmask.Run, put func([]Sample) error, h Hooks,
	at *Stopped) error {
	var openings traces.Openings
	seconds := 0.0
	for step, err := range generate.Run(ctx, m.Denoiser, r) {
		if err != nil {
			if step == nil || ctx.Err() == nil || h.Stop == nil || !h.Stop() {
				return err
			}
			return cutShort(r, step, &openings, put, at) // cancelled during the next step
		}
		at.Step++
		if step.N <= 1 {
			seconds = 0
		}
		seconds += step.Seconds
		openings.Add(step)
		if h.Step != nil {
			if err := h.Step(step); err != nil {
				return err
			}
		}
		stopped := h.Stop != nil && h.Stop()
		var samples, cut []Sample
		for i := range step.Sequences {
			switch s := &step.Sequences[i]; {
			case s.Finished:
				samples = append(samples, sampleOf(r, s, step.N, seconds, &openings))
			case stopped && !s.Done:
				cut = append(cut, sampleOf(r, s, step.N, 0, &openings))
			}
		}
		if samples = append(samples, cut...); len(samples) > 0 {
			if err := put(samples); err != nil {
				return err
			}
		}
		if stopped {
			return at
		}
	}
	return nil
}

// cutShort puts the unfinished samples of a stopped run that could not finish another step.
func cutShort(r unmask.Run, step *generate.Step, o *traces.Openings, put func([]Sample) error,
	at *Stopped) error {
	var cut []Sample
	for i := range step.Sequences {
		if s := &step.Sequences[i]; !s.Done {
			cut = append(cut, sampleOf(r, s, step.N, 0, o))
		}
	}
	if err := put(cut); err != nil {
		return err
	}
	return at
}

func sampleOf(r unmask.Run, s *generate.Sequence, steps int, seconds float64,
	o *traces.Openings) Sample {
	return Sample{Index: s.Index, Seed: r.Seed, Tokens: slices.Clone(s.Tokens), Steps: steps,
		Seconds: seconds, Evaluated: s.Evaluated, Opening: o.Take(s.Index), Unfinished: !s.Done}
}

// behind runs put in a goroutine, so that writing overlaps the next batch's steps. An error of put
// cancels the run and is returned by finish, which waits.
func behind(put func([]Sample) error,
	cancel context.CancelCauseFunc) (later func([]Sample) error, finish func() error) {
	list, done := make(chan []Sample), make(chan struct{})
	var failed error
	go func() {
		defer close(done)
		for samples := range list {
			if failed == nil {
				if failed = put(samples); failed != nil {
					cancel(failed)
				}
			}
		}
	}()
	later = func(samples []Sample) error {
		list <- samples
		return nil
	}
	return later, func() error {
		close(list)
		<-done
		return failed
	}
}

// Steps returns the most steps that a list of completed runs takes; a batch's steps count once.
func Steps(list []unmask.Run) int64 {
	var n int64
	for _, r := range list {
		n += int64(r.Steps) * int64((r.N+r.Batch-1)/r.Batch)
	}
	return n
}
