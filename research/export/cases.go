package export

import (
	"context"
	"fmt"
	"slices"

	"unmask"
	"unmask/backend"
	"unmask/model"
	"unmask/weights"
)

// partialStreams returns the logits of a full pass over the first sequence of a batch followed by a
// partial pass, and those of the full pass that it approximates.
func partialStreams(ctx context.Context, m *unmask.Model, in input, b *model.Batch,
	columns int) ([]weights.Stream, error) {
	rows, fed, after, err := partialCase(m, in, b.Length)
	if err != nil {
		return nil, err
	}
	refiner, err := in.refiner(m.Denoiser)
	if err != nil {
		return nil, err
	}
	batch := func(tokens []int32) *model.Batch {
		return &model.Batch{Size: 1, Length: b.Length, Tokens: tokens, Time: maskedShare(tokens, m)}
	}
	partial := func() (_ model.Marginals, err error) {
		defer backend.Recover(&err)
		first := batch(b.Tokens[:b.Length])
		first.Cache = refiner.NewCache(1, b.Length)
		if _, err := refiner.Forward(ctx, first); err != nil {
			return nil, err
		}
		first.Tokens = after
		return refiner.Refine(ctx, first, fed)
	}
	exact := func() (model.Marginals, error) { return m.Forward(ctx, batch(after)) }
	reader := func(rows []int32, pass func() (model.Marginals, error)) *logitsReader {
		return &logitsReader{ctx: ctx, m: m, length: b.Length, columns: columns, rows: rows, pass: pass}
	}
	streams := []weights.Stream{reader(rows, partial).stream("partial_logits"),
		reader(rows, exact).stream("partial_exact_logits")}
	if len(fed) > 0 && &fed[0] != &rows[0] {
		r := reader(fed, partial)
		r.shifted = true
		streams = append(streams, r.stream("partial_shifted_logits"))
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
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", in.file, err)
	}
	return blocks, whole, nil
}
