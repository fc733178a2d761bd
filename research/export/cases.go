package export

import (
	"fmt"
	"slices"

	"unmask"
	"unmask/model"
	"unmask/param"
	"unmask/weights"
)

// partialStreams returns the logits of a full pass over the first sequence of a batch followed by a
// partial pass, and those of the full pass that it approximates: their difference is the error of
// the cache.
func (e *exporter) partialStreams(b *model.Batch) ([]weights.Stream, error) {
	p, err := readPartialCase(e.m, e.in, b.Length)
	if err != nil {
		return nil, err
	}
	refiner, err := e.in.partialPasses(e.m.Denoiser)
	if err != nil {
		return nil, err
	}
	runPartial := func() (model.Marginals, error) {
		batch := singleBatch(e.m, b.Tokens[:b.Length])
		batch.Cache = refiner.NewCache(1, b.Length)
		if _, err := refiner.Forward(e.ctx, batch); err != nil {
			return nil, err
		}
		batch.Tokens = p.tokens
		return refiner.Refine(e.ctx, batch, p.computed)
	}
	runExact := func() (model.Marginals, error) {
		return e.m.Forward(e.ctx, singleBatch(e.m, p.tokens))
	}
	shape := func(rows []int32) []int { return []int{1, len(rows)} }
	streams := []weights.Stream{
		e.rowStream("partial_logits", shape(p.written), 0, pass{p.written, runPartial}),
		e.rowStream("partial_exact_logits", shape(p.written), 0, pass{p.written, runExact}),
	}
	if p.hasOwnPositions {
		streams = append(streams, e.rowStream("partial_shifted_logits", shape(p.computed), b.Length,
			pass{p.computed, runPartial}))
	}
	return streams, nil
}

// partialCase is the input of a partial pass over one sequence.
type partialCase struct {
	written  []int32 // rows whose logits are written
	computed []int32 // rows that the pass computes
	tokens   []int32 // [length], of that pass

	// hasOwnPositions says that computed is not written, so that its logits are written too.
	hasOwnPositions bool
}

// readPartialCase reads partial_rows, partial_positions and partial_tokens.
func readPartialCase(m *unmask.Model, in input, length int) (partialCase, error) {
	var p partialCase
	var err error
	if p.written, err = in.readRows("partial_rows", length); err != nil {
		return p, err
	}
	p.computed = p.written
	if in.hasTensor("partial_positions") && m.Spec().Shifted {
		if p.computed, err = in.readRows("partial_positions", length); err != nil {
			return p, err
		}
		p.hasOwnPositions = len(p.computed) > 0
		// A network that predicts the next position computes the row before each position too.
		available := append(predictingRows(p.computed, length), p.computed...)
		for i, row := range p.written {
			if !slices.Contains(available, row) {
				return p, fmt.Errorf("%s: partial_rows, element %d is %d, want "+
					"partial_positions and those before them", in.file, i, row)
			}
		}
	}
	if p.tokens, err = in.readPartialTokens(1, length); err != nil {
		return p, err
	}
	if len(p.written) == 0 {
		return p, fmt.Errorf("%s: partial_rows is empty", in.file)
	}
	return p, in.checkTokens("partial_tokens", p.tokens, length, m.Spec())
}

// rawMarginals returns the network's own outputs, before a model shifts them to the positions that
// they predict.
func rawMarginals(m model.Marginals) model.Marginals {
	if r, ok := m.(model.Raw); ok {
		return r.Raw()
	}
	return m
}

// predictingRows returns the rows whose outputs predict the given rows if predictions are shifted:
// the one before, or the row itself at the start of a sequence.
func predictingRows(rows []int32, length int) []int32 {
	predicting := slices.Clone(rows)
	for i, row := range predicting {
		if int(row)%length > 0 {
			predicting[i]--
		}
	}
	return predicting
}

// withBlocks returns the model with the block size of a tokens file, and without blocks; whole is
// nil if the file has no block size.
func withBlocks(m *unmask.Model, in input) (blocks, whole *unmask.Model, err error) {
	if !in.hasTensor("block") {
		return m, nil, nil
	}
	d, ok := m.Denoiser.(model.Blockwise)
	if !ok {
		return nil, nil, fmt.Errorf("%s: there is block, want none: the model does not attend by blocks",
			in.file)
	}
	size, _, err := in.readInts("block", 1)
	if err != nil {
		return nil, nil, err
	}
	if len(size) != 1 {
		return nil, nil, fmt.Errorf("%s: block has %d numbers, want 1", in.file, len(size))
	}
	withBlock := func(block int) (*unmask.Model, error) {
		other := *m
		var err error
		other.Denoiser, err = d.WithBlock(block)
		return &other, err
	}
	if blocks, err = withBlock(int(size[0])); err == nil {
		whole, err = withBlock(0)
	}
	return blocks, whole, param.AtPlace(in.file, err)
}
