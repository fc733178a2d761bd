package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"unmask/model"
)

// Each generates sequences with different recipes, as many at once as o allows; a finished one
// makes room for the next request, or waits for the others if o.WholeBatches is set. It yields the
// sequences in the pool after each step. A request that cannot run or a sequence that fails ends it
// with their error, which comes with the state after the last whole step, or with nil. After ctx is
// cancelled the error wraps ctx.Err().
func Each(ctx context.Context, d model.Denoiser, o PoolOptions,
	requests iter.Seq[Request]) iter.Seq2[*Step, error] {
	return runRequests(ctx, d, o, requests, (*Pool).Add)
}

// runRequests is Each, with the way in which a request joins the pool.
func runRequests(ctx context.Context, d model.Denoiser, o PoolOptions, requests iter.Seq[Request],
	add func(*Pool, Request) (*Sequence, error)) iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		p, err := NewPool(d, o)
		if err != nil {
			yield(nil, err)
			return
		}
		next, stop := iter.Pull(requests)
		defer stop()

		s := new(Step)
		added := 0
		for {
			if len(s.Sequences) == 0 || !o.WholeBatches {
				err = p.addRequests(s, &added, next, add)
			}
			if err == nil && len(s.Sequences) == 0 {
				return
			}
			if err == nil {
				err = p.advanceAll(ctx, s)
			}
			if err != nil {
				yield(s.withoutUnstarted(), err)
				return
			}
			if !yield(s, nil) {
				return
			}
			p.removeFinished(s)
		}
	}
}

// RequestError is the error of one request of Each.
type RequestError struct {
	// Number is that of the request, from 0.
	Number int
	Err    error
}

// Error implements error.
func (e *RequestError) Error() string { return fmt.Sprintf("request %d: %v", e.Number, e.Err) }

// Unwrap returns the error without the request's number.
func (e *RequestError) Unwrap() error { return e.Err }

// addRequests adds requests to the pool and to s until the pool is full; added counts them.
func (p *Pool) addRequests(s *Step, added *int, next func() (Request, bool),
	add func(*Pool, Request) (*Sequence, error)) error {
	for p.Len() < p.options.Size {
		r, ok := next()
		if !ok {
			break
		}
		q, err := add(p, r)
		if err != nil {
			return &RequestError{*added, err}
		}
		s.Sequences = append(s.Sequences, Progress{Sequence: q, Number: *added, Seed: r.Seed})
		*added++
	}
	return nil
}

// advanceAll makes a step of all sequences. After an error of the pass no sequence has changed.
func (p *Pool) advanceAll(ctx context.Context, s *Step) error {
	began := time.Now()
	if err := p.computeStep(ctx); err != nil {
		q := s.Sequences[0]
		return fmt.Errorf("generate: step %d of %d: %w", q.N+1, q.Steps, err)
	}
	for _, q := range s.Sequences {
		if err := q.member.step.fault; err != nil {
			return &RequestError{q.Number, err}
		}
	}
	p.applyStep()

	s.Seconds = time.Since(began).Seconds()
	s.N = 0
	s.Steps = 0
	s.Done = true
	for i := range s.Sequences {
		q := &s.Sequences[i]
		q.Seconds += s.Seconds
		if q.Err != nil {
			return &RequestError{q.Number, q.Err}
		}
		s.N = max(s.N, q.N)
		s.Steps = max(s.Steps, q.Steps)
		s.Done = s.Done && q.Done
	}
	return nil
}

// withoutUnstarted returns the step without sequences that have taken none, or nil if that is all
// of them: an error should come with results only.
func (s *Step) withoutUnstarted() *Step {
	s.Sequences = slices.DeleteFunc(s.Sequences, func(q Progress) bool { return q.N == 0 })
	if len(s.Sequences) == 0 {
		return nil
	}
	return s
}

// removeFinished removes finished sequences, with WholeBatches all of them at once.
func (p *Pool) removeFinished(s *Step) {
	if p.options.WholeBatches && !s.Done {
		return
	}
	s.Sequences = slices.DeleteFunc(s.Sequences, func(q Progress) bool {
		if q.Done {
			p.Remove(q.Sequence)
		}
		return q.Done
	})
}

// Run generates o.N sequences, batch after batch, and yields every step. Sequence i depends only on
// the seed and on i.
//
// An error ends the run; it comes with the last finished step of the batch, or with nil. After ctx
// is cancelled the error wraps ctx.Err(). Several runs may share a model that is a model.Locker.
func Run(ctx context.Context, d model.Denoiser, o Options) iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		o, err := o.Check(d)
		if err != nil {
			yield(nil, err)
			return
		}
		requests := func(yield func(Request) bool) {
			r := o.Request
			for range o.N {
				if !yield(r) {
					return
				}
				r.Index++
			}
		}
		pool := PoolOptions{
			Size:         o.Batch,
			Length:       o.maxLength(),
			Guided:       o.Guidance.Scale != 0,
			WholeBatches: true,
		}
		// The sequences differ in their Index alone, so the check above was for all of them.
		for step, err := range runRequests(ctx, d, pool, requests, (*Pool).addChecked) {
			if failed, ok := errors.AsType[*RequestError](err); ok {
				err = failed.Err // its number says nothing here: the text of err has the index
			}
			if !yield(step, err) || err != nil {
				return
			}
		}
	}
}

// Samples runs like Run but yields only finished sequences, in the order in which they finish, each
// valid until the next. An error ends it.
func Samples(ctx context.Context, d model.Denoiser, o Options) iter.Seq2[Sequence, error] {
	return func(yield func(Sequence, error) bool) {
		for step, err := range Run(ctx, d, o) {
			if err != nil {
				yield(Sequence{}, err)
				return
			}
			for _, q := range step.Sequences {
				if q.Finished && !yield(*q.Sequence, nil) {
					return
				}
			}
		}
	}
}
