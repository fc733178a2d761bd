package export

import (
	"fmt"
	"slices"

	"unmask"
	"unmask/model"
	"unmask/param"
	"unmask/weights"
)

// partial returns the logits of a full pass over the first sequence of a batch followed by a
// partial pass, and those of the full pass that it approximates.
func (e *exporter) partial(b *model.Batch) ([]weights.Stream, error) {
	rows, fed, after, err := partialCase(e.m, e.in, b.Length)
	if err != nil {
		return nil, err
	}
	refiner, err := e.in.refiner(e.m.Denoiser)
	if err != nil {
		return nil, err
	}
	partial := func() (model.Marginals, error) {
		first := alone(e.m, b.Tokens[:b.Length])
		first.Cache = refiner.NewCache(1, b.Length)
		if _, err := refiner.Forward(e.ctx, first); err != nil {
			return nil, err
		}
		first.Tokens = after
		return refiner.Refine(e.ctx, first, fed)
	}
	exact := func() (model.Marginals, error) { return e.m.Forward(e.ctx, alone(e.m, after)) }
	stream := func(name string, rows []int32, run func() (model.Marginals, error)) weights.Stream {
		return e.stream(name, []int{1, len(rows)}, 0, pass{rows, run})
	}
	streams := []weights.Stream{stream("partial_logits", rows, partial),
		stream("partial_exact_logits", rows, exact)}
	if len(fed) > 0 && &fed[0] != &rows[0] {
		streams = append(streams, e.stream("partial_shifted_logits", []int{1, len(fed)}, b.Length,
			pass{fed, partial}))
	}
	return streams, nil
}

// partialCase reads the inputs of a partial pass over one sequence: the rows to write, the rows
// that the pass computes and the tokens [length] of that pass.
func partialCase(m *unmask.Model, in input, length int) (rows, fed, after []int32, err error) {
	if rows, err = in.rows("partial_rows", length); err != nil {
		return nil, nil, nil, err
	}
	fed = rows
	if in.has("partial_positions") && m.Spec().Shifted {
		if fed, err = in.rows("partial_positions", length); err != nil {
			return nil, nil, nil, err
		}
		computed := append(before(fed, length), fed...)
		for i, r := range rows {
			if !slices.Contains(computed, r) {
				return nil, nil, nil, fmt.Errorf("%s: partial_rows, element %d is %d, want "+
					"partial_positions and those before them", in.file, i, r)
			}
		}
	}
	if after, err = in.after(1, length); err != nil {
		return nil, nil, nil, err
	}
	if len(rows) == 0 {
		return nil, nil, nil, fmt.Errorf("%s: partial_rows is empty", in.file)
	}
	return rows, fed, after, in.checkTokens("partial_tokens", after, length, m.Spec())
}

// raw returns the network's own outputs.
func raw(m model.Marginals) model.Marginals {
	if r, ok := m.(model.Raw); ok {
		return r.Raw()
	}
	return m
}

// before returns the rows whose outputs predict the given rows if predictions are shifted.
func before(rows []int32, length int) []int32 {
	from := slices.Clone(rows)
	for i, r := range from {
		if int(r)%length > 0 {
			from[i]--
		}
	}
	return from
}

// withBlocks returns the model with the block size of a tokens file, and without blocks; whole is
// nil if the file has no block size.
func withBlocks(m *unmask.Model, in input) (blocks, whole *unmask.Model, err error) {
	if !in.has("block") {
		return m, nil, nil
	}
	d, ok := m.Denoiser.(model.Blockwise)
	if !ok {
		return nil, nil, fmt.Errorf("%s: there is block, want none: the model does not attend by blocks",
			in.file)
	}
	size, _, err := in.ints("block", 1)
	if err != nil {
		return nil, nil, err
	}
	if len(size) != 1 {
		return nil, nil, fmt.Errorf("%s: block has %d numbers, want 1", in.file, len(size))
	}
	of := func(block int) (*unmask.Model, error) {
		other := *m
		other.Denoiser, err = d.WithBlock(block)
		return &other, err
	}
	if blocks, err = of(int(size[0])); err == nil {
		whole, err = of(0)
	}
	return blocks, whole, param.AtPlace(in.file, err)
}
