package outputs

import (
	"context"
	"slices"

	"unmask"
	"unmask/generate"
	"unmask/generate/traces"
)

// MakeEach makes samples r.First..r.First+r.N-1 of a list of inputs, r.Batch at once, and puts them
// in the order in which they finish. Model.Check must have completed r. Hooks.Step is not called,
// because different inputs have no step in common.
func MakeEach(ctx context.Context, m *unmask.Model, r unmask.Run, q *unmask.Requests, out Output,
	h Hooks) error {
	var openings traces.Openings
	pool := generate.PoolOptions{Size: r.Batch, Length: q.Longest, Guided: r.Guidance.Scale != 0}
	steps := 0
	for parts, err := range generate.Each(ctx, m.Denoiser, pool, q.All(r.First, r.N)) {
		if err != nil {
			if ctx.Err() != nil && h.Stop != nil && h.Stop() {
				return &Stopped{Step: steps} // in the middle of the next step
			}
			return err
		}
		steps++
		openings.AddParts(parts)
		stopped := h.Stop != nil && h.Stop()
		var samples, cut []Sample
		for _, p := range parts {
			if !p.Done && !stopped {
				continue
			}
			index := r.First + p.Number
			input := q.Input(index)
			s := Sample{Index: index, Seed: p.Seed, Input: &input, Tokens: slices.Clone(p.Tokens),
				Steps: p.N, Seconds: p.Seconds, Evaluated: p.Evaluated, Opening: openings.Take(p.Number),
				Unfinished: !p.Done}
			if p.Done {
				samples = append(samples, s)
			} else {
				cut = append(cut, s)
			}
		}
		if samples = append(samples, cut...); len(samples) > 0 {
			if err := out.Put(samples); err != nil {
				return err
			}
		}
		if stopped {
			return &Stopped{Step: steps}
		}
	}
	return nil
}
