package generate

import (
	"context"
	"fmt"
	"iter"
	"time"

	"unmask/model"
)

// Part is a sequence of Each after a step.
type Part struct {
	*Sequence
	Number  int     // index of its request, from 0
	Seed    uint64  // of the request
	Seconds float64 // time of the steps that the sequence took part in
}

// Each generates sequences with different recipes, as many at once as o allows; a finished one
// makes room for the next request. It yields the sequences that took part in each step, a finished
// one for the last time; the slice is valid until the next iteration. A request that cannot run or
// a sequence that fails ends it with their error; after ctx is cancelled the error wraps ctx.Err().
func Each(ctx context.Context, d model.Denoiser, o PoolOptions,
	requests iter.Seq[Request]) iter.Seq2[[]Part, error] {
	return func(yield func([]Part, error) bool) {
		p, err := NewPool(d, o)
		if err != nil {
			yield(nil, err)
			return
		}
		next, stop := iter.Pull(requests)
		defer stop()
		var parts []Part
		for number := 0; ; {
			for p.Len() < p.o.Size {
				r, ok := next()
				if !ok {
					break
				}
				q, err := p.Add(r)
				if err != nil {
					yield(nil, fmt.Errorf("request %d: %w", number, err))
					return
				}
				parts = append(parts, Part{Sequence: q, Number: number, Seed: r.Seed})
				number++
			}
			if len(parts) == 0 {
				return
			}
			began := time.Now()
			if _, err := p.Step(ctx); err != nil {
				yield(nil, err)
				return
			}
			seconds := time.Since(began).Seconds()
			for i := range parts {
				if parts[i].Seconds += seconds; parts[i].Err != nil {
					yield(nil, fmt.Errorf("request %d: %w", parts[i].Number, parts[i].Err))
					return
				}
			}
			if !yield(parts, nil) {
				return
			}
			left := parts[:0]
			for _, s := range parts {
				if s.Done {
					p.Remove(s.Sequence)
				} else {
					left = append(left, s)
				}
			}
			parts = left
		}
	}
}
