// Package outputs makes the samples of runs and writes them: texts to a stream or a file; pictures
// to a folder, a contact sheet or a film; lines of JSON for both; and traces. Interrupted folders
// and files of lines can be continued.
package outputs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"unmask/constrain"
	"unmask/generate"
	"unmask/generate/traces"
	"unmask/runs"
)

// Sample is a finished sequence or, if the run was stopped, an unfinished one.
type Sample struct {
	Index      int
	Seed       uint64
	Input      *int    // its index in a list of inputs; nil: there is no list
	Tokens     []int32 // [length], masks where Unfinished
	Steps      int
	Seconds    float64 // since it was added to the pool
	Evaluated  generate.Work
	Choices    []constrain.Choice // see generate.Sequence
	Opening    *traces.Opening    // when each position opened, and the probability of its token
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

// RunError returns the error of a run whose outputs were closed: the run's, unless it was only
// stopped, and otherwise that of closing them.
func RunError(ran, closed error) error {
	if closed != nil && (ran == nil || errors.Is(ran, ErrStopped)) {
		return closed
	}
	return ran
}

// MakeSamples makes samples of a job and puts them to out. Samples of a list of texts are put in
// the order in which they finish, all others batch by batch.
func MakeSamples(ctx context.Context, j *Job, list []runs.Span, out Output, h Hooks) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	put, finish := out.Put, func() error { return nil }
	if h.Behind {
		put, finish = behind(out.Put, cancel)
	}
	failed := j.make(ctx, list, put, h)
	return cmp.Or(finish(), failed)
}

func (j *Job) make(ctx context.Context, list []runs.Span, put func([]Sample) error,
	h Hooks) error {
	var openings traces.Openings
	at := Stopped{Steps: int(j.Steps(list))}
	stop := func() bool { return h.Stop != nil && h.Stop() }
	pool := generate.PoolOptions{Size: j.Run.Batch, Length: j.Requests.Longest,
		Guided: j.Requests.Guided, WholeBatches: j.together()}
	for step, err := range generate.Each(ctx, j.Model.Denoiser, pool, j.requests(list)) {
		stopped := false
		switch {
		case err == nil:
			at.Step++
			openings.Add(step)
			if h.Step != nil {
				if err := h.Step(step); err != nil {
					return err
				}
			}
			stopped = stop()
		case ctx.Err() == nil || !stop():
			return j.about(err)
		case step == nil:
			return &at
		default: // cancelled during the next step
			stopped = true
		}
		var samples, cut []Sample
		for _, q := range step.Sequences {
			switch {
			case q.Finished && err == nil:
				samples = append(samples, j.sample(q, list, &openings))
			case stopped && !q.Done:
				cut = append(cut, j.sample(q, list, &openings))
			}
		}
		if samples = append(samples, cut...); len(samples) > 0 {
			if err := put(samples); err != nil {
				return err
			}
		}
		if stopped {
			return &at
		}
	}
	return nil
}

// sample returns the sample that a sequence is.
func (j *Job) sample(q generate.Progress, list []runs.Span, o *traces.Openings) Sample {
	s := Sample{Index: index(list, q.Number), Seed: q.Seed, Tokens: slices.Clone(q.Tokens),
		Steps: q.N, Seconds: q.Seconds, Evaluated: q.Work, Choices: q.Choices,
		Opening: o.Take(q.Number), Unfinished: !q.Done}
	if j.Requests.FromFile() {
		input := j.Requests.InputIndex(s.Index)
		s.Input = &input
	}
	return s
}

// index returns sample n of a list.
func index(list []runs.Span, n int) int {
	for n >= list[0].N {
		n, list = n-list[0].N, list[1:]
	}
	return list[0].First + n
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
