// Package outputs makes the samples of runs and writes them: texts to a stream or a file, pictures
// to a folder, a contact sheet or a film, lines of JSON for either, and traces. Folders and files
// of lines go on where they were broken off.
package outputs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"unmask"
	"unmask/generate"
	"unmask/traces"
)

// Sample is a sequence that is finished or, where a run was stopped, was cut off.
type Sample struct {
	Index      int
	Seed       uint64
	Input      *int    // number of its input, of a list of them; nil: it has none
	Tokens     []int32 // [length], the mask where Unfinished
	Steps      int
	Seconds    float64 // since its batch began
	Evaluated  generate.Evaluated
	Opening    *traces.Opening // when each position opened, and with which probability
	Unfinished bool
}

// Output takes samples.
type Output interface {
	// Put takes the samples that a step finished, by index. Those of a batch come before those of
	// the next. Unfinished samples come last, of a run that was stopped.
	Put(samples []Sample) error
}

// Hooks follow a run. The zero Hooks do nothing.
type Hooks struct {
	Step func(*generate.Step) error // sees each step before its samples are put; an error ends the run
	Stop func() bool                // is asked after each step; true ends the run with *Stopped

	// Behind puts samples in another goroutine, at most one batch behind.
	Behind bool
}

// ErrStopped is what [Stopped] matches in errors.Is.
var ErrStopped = errors.New("interrupted")

// Stopped is the error of a run that Hooks.Stop ended after Step of Steps steps, those of all
// batches together; Steps is 0 where samples were at steps of their own.
type Stopped struct{ Step, Steps int }

// Error returns the sentence.
func (s *Stopped) Error() string {
	if s.Steps == 0 {
		return "interrupted"
	}
	return fmt.Sprintf("interrupted after step %d of %d", s.Step, s.Steps)
}

// Is reports whether target is ErrStopped.
func (s *Stopped) Is(target error) bool { return target == ErrStopped }

// Make runs a list of runs, each completed by Model.Check, and puts their samples.
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

// one makes the samples of a run, and counts its steps in at.
func one(ctx context.Context, m *unmask.Model, r unmask.Run, put func([]Sample) error, h Hooks,
	at *Stopped) error {
	var openings traces.Openings
	seconds := 0.0
	for step, err := range generate.Run(ctx, m.Denoiser, r) {
		if err != nil {
			if step == nil || ctx.Err() == nil || h.Stop == nil || !h.Stop() {
				return err
			}
			return cutShort(r, step, &openings, put, at) // in the middle of the next step
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

// cutShort puts what a step left unfinished, of a run that was stopped and could not finish another
// one.
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

// behind returns put in a goroutine, so that writing overlaps the next batch's steps. An error of
// put cancels the run and comes back from finish, which waits.
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

// Steps returns how many steps a list of completed runs takes at most, those of a batch once.
func Steps(list []unmask.Run) int64 {
	var n int64
	for _, r := range list {
		n += int64(r.Steps) * int64((r.N+r.Batch-1)/r.Batch)
	}
	return n
}
