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
	Index int
	Seed  uint64

	// Input is the sample's index in a list of inputs, nil without a list.
	Input *int

	// Tokens has masks where the sample is Unfinished: [length].
	Tokens []int32

	Steps int

	// Seconds is the time since the sample was added to the pool.
	Seconds float64

	Evaluated generate.Work

	// Choices are those of generate.Sequence.
	Choices []constrain.Choice

	// Opening says when each position opened, and the probability of its token.
	Opening *traces.Opening

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
	// Step is called with each step before its samples are put. An error ends the run.
	Step func(*generate.Step) error

	// Stop is called after each step. Returning true ends the run with a *Stopped.
	Stop func() bool

	// Behind puts samples in another goroutine, at most one batch later.
	Behind bool
}

// ErrStopped matches [Stopped] in errors.Is.
var ErrStopped = errors.New("interrupted")

// Stopped is the error of a run that Hooks.Stop ended after Step of Steps steps, counted over all
// batches; Steps is 0 if the samples were at different steps.
type Stopped struct {
	Step  int
	Steps int
}

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
func RunError(runErr, closeErr error) error {
	if closeErr != nil && (runErr == nil || errors.Is(runErr, ErrStopped)) {
		return closeErr
	}
	return runErr
}

// MakeSamples makes samples of a job and puts them to out. Samples of a list of texts are put in
// the order in which they finish, all others batch by batch.
func MakeSamples(ctx context.Context, j *Job, spans []runs.Span, out Output, h Hooks) error {
	if !h.Behind {
		return j.makeSamples(ctx, spans, out.Put, h)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	put, finish := putBehind(out.Put, cancel)
	makeErr := j.makeSamples(ctx, spans, put, h)
	putErr := finish() // it is why the run was cancelled
	return cmp.Or(putErr, makeErr)
}

// makeSamples makes the samples of spans and calls put with those that are finished, after each
// step that finishes some. When the user asks to stop, it calls put with the unfinished ones too,
// and the error is a *Stopped.
func (j *Job) makeSamples(ctx context.Context, spans []runs.Span, put func([]Sample) error,
	h Hooks) error {
	var openings traces.Openings
	progress := Stopped{Steps: int(j.Steps(spans))}
	stopAsked := func() bool { return h.Stop != nil && h.Stop() }
	pool := generate.PoolOptions{
		Size:         j.Run.Batch,
		Length:       j.Requests.MaxLength,
		Guided:       j.Requests.Guided,
		WholeBatches: j.stepsTogether(),
	}
	for step, err := range generate.Each(ctx, j.Model.Denoiser, pool, j.requests(spans)) {
		isStopped := false
		switch {
		case err == nil:
			progress.Step++
			openings.Add(step)
			if h.Step != nil {
				if err := h.Step(step); err != nil {
					return err
				}
			}
			isStopped = stopAsked()
		case ctx.Err() == nil || !stopAsked():
			return j.withoutNumber(err)
		case step == nil:
			return &progress
		default: // the context ended during the next step, because the user asked to stop
			isStopped = true
		}

		var finished, unfinished []Sample
		for _, q := range step.Sequences {
			switch {
			case q.Finished && err == nil:
				finished = append(finished, j.newSample(q, spans, &openings))
			case isStopped && !q.Done:
				unfinished = append(unfinished, j.newSample(q, spans, &openings))
			}
		}
		if samples := append(finished, unfinished...); len(samples) > 0 {
			if err := put(samples); err != nil {
				return err
			}
		}
		if isStopped {
			return &progress
		}
	}
	return nil
}

// newSample returns the sample that a sequence is.
func (j *Job) newSample(q generate.Progress, spans []runs.Span, o *traces.Openings) Sample {
	s := Sample{
		Index:      sampleIndex(spans, q.Number),
		Seed:       q.Seed,
		Tokens:     slices.Clone(q.Tokens),
		Steps:      q.N,
		Seconds:    q.Seconds,
		Evaluated:  q.Work,
		Choices:    q.Choices,
		Opening:    o.Take(q.Number),
		Unfinished: !q.Done,
	}
	if j.Requests.FromFile() {
		input := j.Requests.InputIndex(s.Index)
		s.Input = &input
	}
	return s
}

// sampleIndex returns the index of sample number n of spans.
func sampleIndex(spans []runs.Span, n int) int {
	for n >= spans[0].N {
		n -= spans[0].N
		spans = spans[1:]
	}
	return spans[0].First + n
}

// putBehind runs put in a goroutine, so that writing overlaps the next batch's steps. An error of
// put cancels the run and is returned by finish, which waits.
func putBehind(put func([]Sample) error,
	cancel context.CancelCauseFunc) (putLater func([]Sample) error, finish func() error) {
	queue := make(chan []Sample)
	finished := make(chan struct{})
	var failed error
	go func() {
		defer close(finished)
		for samples := range queue {
			if failed != nil {
				continue // the run must not wait for a receiver
			}
			failed = put(samples)
			if failed != nil {
				cancel(failed)
			}
		}
	}()
	putLater = func(samples []Sample) error {
		queue <- samples
		return nil
	}
	finish = func() error {
		close(queue)
		<-finished
		return failed
	}
	return putLater, finish
}
