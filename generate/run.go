package generate

import (
	"context"
	"errors"
	"iter"

	"unmask/model"
)

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
		for step, err := range Each(ctx, d, o.Pool(), o.Requests()) {
			if failed, ok := errors.AsType[*RequestError](err); ok {
				err = failed.Err
			}
			if !yield(step, err) || err != nil {
				return
			}
		}
	}
}

// Pool returns the options of the pool that Run takes; o was completed by Check.
func (o Options) Pool() PoolOptions {
	return PoolOptions{Size: o.Batch, Length: o.Length, Guided: o.Guidance.Scale != 0, Together: true}
}

// Requests returns the requests of the sequences of a run that was completed by Check.
func (o Options) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for i := range o.N {
			r := o.Request
			if r.Index += uint32(i); o.Conditions != nil {
				r.Condition = o.Conditions(int(r.Index))
			}
			if !yield(r) {
				return
			}
		}
	}
}

// Sample is a finished sequence of a run. It is valid until the next iteration.
type Sample struct {
	Sequence
	Seconds float64 // time of its batch's steps until it was finished
}

// Samples runs like Run but yields only finished sequences, in the order in which they finish. An
// error ends it.
func Samples(ctx context.Context, d model.Denoiser, o Options) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		for step, err := range Run(ctx, d, o) {
			if err != nil {
				yield(Sample{}, err)
				return
			}
			for _, q := range step.Sequences {
				if q.Finished && !yield(Sample{*q.Sequence, q.Seconds}, nil) {
					return
				}
			}
		}
	}
}
