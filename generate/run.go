package generate

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"unmask/model"
)

// Run generates o.N sequences, batch after batch, and yields every step. Sequence i depends only on
// the seed and on i.
//
// An error ends the run; it comes with the last finished step of the batch, or with nil. After ctx
// is cancelled the error wraps ctx.Err(). Several runs may share a model that is a model.Locker.
func Run(ctx context.Context, d model.Denoiser, o Options) iter.Seq2[*Step, error] {
	return func(yield func(*Step, error) bool) {
		r, err := newRun(d, o)
		if err != nil {
			yield(nil, err)
			return
		}
		for first := 0; first < r.o.N; first += r.o.Batch {
			if !r.batch(ctx, r.o.First+first, min(r.o.Batch, r.o.N-first), yield) {
				return
			}
		}
	}
}

// run is the state of one Run: a pool with one task.
type run struct {
	o    Options
	task *task
	pool *Pool
	step Step
}

func newRun(d model.Denoiser, o Options) (*run, error) {
	o, err := o.Check(d)
	if err != nil {
		return nil, err
	}
	r := &run{o: o}
	if r.pool, err = NewPool(d,
		PoolOptions{Size: o.Batch, Length: o.Length, Guided: o.Guidance.Scale != 0}); err != nil {
		return nil, err
	}
	if r.task, err = r.pool.newTask(o.Recipe(), o.Seed, o.Length, o.Tokens, o.Ends); err != nil {
		return nil, err
	}
	r.task.adjust = o.Adjust
	return r, r.task.speak(o.Language, r.pool.spec)
}

// batch runs sequences first..first+count-1 to their end; it returns false if the run must stop.
func (r *run) batch(ctx context.Context, first, count int, yield func(*Step, error) bool) bool {
	for r.pool.Len() > 0 {
		r.pool.Remove(&r.pool.members[0].Sequence)
	}
	for i := range count {
		if _, err := r.pool.join(r.task, first+i, r.o.condition(first+i)); err != nil {
			yield(nil, err)
			return false
		}
	}
	r.step = Step{Steps: r.task.steps, Sequences: slices.Grow(r.step.Sequences[:0], count)[:count]}
	if len(r.task.initial.free) == 0 {
		r.pool.commit()
		r.show()
		return yield(&r.step, nil)
	}
	var finished *Step
	for n := 1; !r.step.Done; n++ {
		began := time.Now()
		if err := r.do(ctx, n); err != nil {
			yield(finished, err)
			return false
		}
		r.step.Seconds = time.Since(began).Seconds()
		if err := r.edit(n); err != nil {
			yield(finished, err)
			return false
		}
		finished = &r.step
		if !yield(finished, nil) {
			return false
		}
	}
	return true
}

// do makes a step of all sequences, or of none if there is an error.
func (r *run) do(ctx context.Context, n int) error {
	if err := r.pool.compute(ctx); err != nil {
		return fmt.Errorf("generate: step %d of %d: %w", n, r.step.Steps, err)
	}
	for _, m := range r.pool.members {
		if m.step.fault != nil {
			return m.step.fault
		}
	}
	r.pool.commit()
	r.step.N = n
	r.show()
	return nil
}

// show copies the state of the sequences into the step.
func (r *run) show() {
	r.step.Done = true
	for i, m := range r.pool.members {
		r.step.Sequences[i] = m.Sequence
		r.step.Done = r.step.Done && m.Done
	}
}

// edit calls the caller's Edit. A finished sequence in which it masks positions again continues at
// the batch's step.
func (r *run) edit(n int) error {
	if r.o.Edit == nil {
		return nil
	}
	if err := r.o.Edit(&r.step); err != nil {
		return fmt.Errorf("generate: step %d of %d: edit: %w", n, r.step.Steps, err)
	}
	for _, m := range r.pool.members {
		finished := m.Finished
		if m.N = n; m.edited(r.pool.spec) != nil {
			return fmt.Errorf("%w, after the edit of sequence %d", m.edited(r.pool.spec), m.Index)
		}
		m.Finished = m.Done && finished
	}
	r.show()
	return nil
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
		seconds := 0.0
		for step, err := range Run(ctx, d, o) {
			if err != nil {
				yield(Sample{}, err)
				return
			}
			seconds += step.Seconds
			for _, q := range step.Sequences {
				if q.Finished && !yield(Sample{q, seconds}, nil) {
					return
				}
			}
			if step.Done {
				seconds = 0
			}
		}
	}
}
