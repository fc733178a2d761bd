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

// partialReaders returns readers of a full pass over the first sequence, then of a partial pass.
func partialReaders(ctx context.Context, m *unmask.Model, set *weights.Set, file string,
	tokens []int32,
	length, columns int) ([]*logitsReader, error) {
	rows, _, err := ints(set, file, "partial_rows", 1)
	if err != nil {
		return nil, err
	}
	if err := checkRows(file, "partial_rows", rows, length); err != nil {
		return nil, err
	}
	fed := rows // rows computed in the partial pass
	if _, ok := set.Get("partial_positions"); ok && m.Spec().Shifted {
		if fed, _, err = ints(set, file, "partial_positions", 1); err != nil {
			return nil, err
		}
		if err := checkRows(file, "partial_positions", fed, length); err != nil {
			return nil, err
		}
		if missing := slices.IndexFunc(rows, func(r int32) bool {
			return !slices.Contains(fed, r) && !slices.Contains(before(fed, length), r)
		}); missing >= 0 {
			return nil, fmt.Errorf("%s: partial_rows, element %d is %d, want partial_positions and those "+
				"before them",
				file, missing, rows[missing])
		}
	}
	after, shape, err := ints(set, file, "partial_tokens", 2)
	if err != nil {
		return nil, err
	}
	if shape[0] != 1 || shape[1] != length {
		return nil, fmt.Errorf("%s: partial_tokens has shape %v, want [1 %d]", file, shape, length)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: partial_rows is empty", file)
	}
	if err := checkTokens(file, "partial_tokens", after, length, m.Spec()); err != nil {
		return nil, err
	}
	refiner, ok := m.Denoiser.(model.Refiner)
	if !ok {
		return nil, fmt.Errorf("%s: partial_rows, but the model has no partial passes", file)
	}
	batch := func(tokens []int32) *model.Batch {
		return &model.Batch{Size: 1, Length: length, Tokens: tokens, Time: maskedShare(tokens, m)}
	}
	reader := func(name string, rows []int32, shifted bool,
		pass func() (model.Marginals, error)) *logitsReader {
		return &logitsReader{ctx: ctx, m: m, length: length, columns: columns, name: name, rows: rows,
			shifted: shifted, pass: pass}
	}
	partial := func() (_ model.Marginals, err error) {
		defer backend.Recover(&err)
		b := batch(tokens[:length])
		b.Cache = refiner.NewCache(1, length)
		if _, err := refiner.Forward(ctx, b); err != nil {
			return nil, err
		}
		b.Tokens = after
		return refiner.Refine(ctx, b, fed)
	}
	exact := func() (model.Marginals, error) { return m.Forward(ctx, batch(after)) }
	readers := []*logitsReader{reader("partial_logits", rows, false, partial),
		reader("partial_exact_logits", rows, false, exact)}
	if len(fed) > 0 && &fed[0] != &rows[0] {
		readers = append(readers, reader("partial_shifted_logits", fed, true, partial))
	}
	return readers, nil
}

// checkRows returns an error unless rows are positions, each at most once.
func checkRows(file, name string, rows []int32, length int) error {
	seen := make([]bool, length)
	for i, row := range rows {
		if row < 0 || int(row) >= length || seen[row] {
			return fmt.Errorf("%s: %s, element %d is %d, want 0 to %d, each once", file, name, i, row,
				length-1)
		}
		seen[row] = true
	}
	return nil
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
func withBlocks(m *unmask.Model, set *weights.Set, file string) (blocks, whole *unmask.Model,
	err error) {
	if _, ok := set.Get("block"); !ok {
		return m, nil, nil
	}
	d, ok := m.Denoiser.(model.Blockwise)
	if !ok {
		return nil, nil, fmt.Errorf("%s: there is block, want none: the model does not attend by blocks",
			file)
	}
	size, _, err := ints(set, file, "block", 1)
	if err != nil {
		return nil, nil, err
	}
	if len(size) != 1 {
		return nil, nil, fmt.Errorf("%s: block has %d numbers, want 1", file, len(size))
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
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return blocks, whole, nil
}
