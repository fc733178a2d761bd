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
// makes room for the next request, or waits for the others if o.Together is set. It yields the
// sequences in the pool after each step. A request that cannot run or a sequence that fails ends it
// with their error, which comes with the state after the last whole step, or with nil. After ctx is
// cancelled the error wraps ctx.Err().
func Each(ctx context.Context, d model.Denoiser, o PoolOptions,
	requests iter.Seq[Request]) iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		p, err := NewPool(d, o)
		if err != nil {
			yield(nil, err)
			return
		}
		next, stop := iter.Pull(requests)
		defer stop()
		s := new(Step)
		for added := 0; ; {
			if len(s.Sequences) == 0 || !o.WholeBatches {
				err = p.fill(s, &added, next)
			}
			if err == nil && len(s.Sequences) == 0 {
				return
			}
			if err == nil {
				err = p.advance(ctx, s)
			}
			if err != nil {
				yield(s.whole(), err)
				return
			}
			if !yield(s, nil) {
				return
			}
			p.dismiss(s)
		}
	}
}

// RequestError is the error of one request of Each.
type RequestError struct {
	Number int // from 0
	Err    error
}

// Error implements error.
func (e *RequestError) Error() string { return fmt.Sprintf("request %d: %v", e.Number, e.Err) }

// Unwrap returns the error without the request's number.
func (e *RequestError) Unwrap() error { return e.Err }

// fill adds requests to the pool until it is full; added counts them.
func (p *Pool) fill(s *Step, added *int, next func() (Request, bool)) error {
	for p.Len() < p.o.Size {
		r, ok := next()
		if !ok {
			break
		}
		q, err := p.Add(r)
		if err != nil {
			return &RequestError{*added, err}
		}
		s.Sequences = append(s.Sequences, Progress{Sequence: q, Number: *added, Seed: r.Seed})
		*added++
	}
	return nil
}

// advance makes a step of all sequences. After an error of the pass no sequence has changed.
func (p *Pool) advance(ctx context.Context, s *Step) error {
	began := time.Now()
	if err := p.compute(ctx); err != nil {
		q := s.Sequences[0]
		return fmt.Errorf("generate: step %d of %d: %w", q.N+1, q.Steps, err)
	}
	for _, q := range s.Sequences {
		if err := q.member.step.fault; err != nil {
			return &RequestError{q.Number, err}
		}
	}
	p.apply()
	s.Seconds = time.Since(began).Seconds()
	s.N, s.Steps, s.Done = 0, 0, true
	for i := range s.Sequences {
		q := &s.Sequences[i]
		if q.Seconds += s.Seconds; q.Err != nil {
			return &RequestError{q.Number, q.Err}
		}
		s.N, s.Steps, s.Done = max(s.N, q.N), max(s.Steps, q.Steps), s.Done && q.Done
	}
	return nil
}

// whole returns the step without sequences that have taken none, nil if that is all of them.
func (s *Step) whole() *Step {
	s.Sequences = slices.DeleteFunc(s.Sequences, func(q Progress) bool { return q.N == 0 })
	if len(s.Sequences) == 0 {
		return nil
	}
	return s
}

// dismiss removes finished sequences, or all of them at once.
func (p *Pool) dismiss(s *Step) {
	if p.o.WholeBatches && !s.Done {
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
			for i := 0; i < o.N && yield(r); i++ {
				r.Index++
			}
		}
		pool := PoolOptions{Size: o.Batch, Length: o.Length, Guided: o.Guidance.Scale != 0,
			WholeBatches: true}
		for step, err := range Each(ctx, d, pool, requests) {
			if failed, ok := errors.AsType[*RequestError](err); ok {
				err = failed.Err
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
