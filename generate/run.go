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
		requests := func(yield func(Request) bool) {
			r := o.Request
			for i := 0; i < o.N && yield(r); i++ {
				r.Index++
			}
		}
		pool := PoolOptions{Size: o.Batch, Length: o.Length, Guided: o.Guidance.Scale != 0,
			Together: true}
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
