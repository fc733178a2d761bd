package gpt2

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// workspace is the memory of a pass.
type workspace struct {
	nn.Work

	// hidden and target [rows, hidden] are the head's inputs and the embeddings of the targets.
	hidden *tensor.Dense
	target *tensor.Dense

	// hiddenValues and targetValues are both on the host.
	hiddenValues []float32
	targetValues []float32

	logSum []float64 // [rows]
}

// Score returns the negative log-likelihood, in nats, of every token but the first of each
// sequence: nll[i][j] = -log p(tokens[i][j+1] | tokens[i][:j+1]). Sequences may have different
// lengths, 0 to Context; what one gets does not depend on the others.
func (m *Model) Score(ctx context.Context, tokens [][]int32) (nll [][]float64, err error) {
	defer backend.Recover(&err)
	longest := 0
	for i, t := range tokens {
		if err := m.checkTokens(i, t); err != nil {
			return nil, err
		}
		longest = max(longest, len(t))
	}
	if err := m.passes.Full(newBatch(tokens, longest)); err != nil {
		return nil, err
	}
	nll = make([][]float64, len(tokens))
	for i, t := range tokens {
		nll[i] = make([]float64, max(len(t)-1, 0))
	}
	for p := m.passes.Next(); p != nil; p = m.passes.Next() {
		if err := m.runPass(ctx, p); err != nil {
			return nil, err
		}
		var s targetRows
		for row, position := range p.ResultRows {
			sequence := int(position) / longest
			next := int(position)%longest + 1
			if next < len(tokens[sequence]) {
				s.add(row, tokens[sequence][next], &nll[sequence][next-1], sequence, next)
			}
		}
		if err := m.scoreRows(m.work.X, &s); err != nil {
			return nil, err
		}
	}
	return nll, nil
}

// newBatch arranges sequences of at most `length` tokens.
func newBatch(tokens [][]int32, length int) *model.Batch {
	b := &model.Batch{
		Size:    len(tokens),
		Length:  length,
		Lengths: make([]int, len(tokens)),
		Tokens:  make([]int32, len(tokens)*length),
	}
	for i, t := range tokens {
		b.Lengths[i] = len(t)
		copy(b.Tokens[i*length:], t)
	}
	return b
}

// checkTokens checks the tokens of sequence i.
func (m *Model) checkTokens(i int, tokens []int32) error {
	if n := len(tokens); n > m.config.Context {
		return fmt.Errorf("sequence %d has %d tokens, want 0 to %d", i, n, m.config.Context)
	}
	for j, t := range tokens {
		if t < 0 || int(t) >= m.config.Vocab {
			return fmt.Errorf("token %d of sequence %d is %d, want 0 to %d", j, i, t, m.config.Vocab-1)
		}
	}
	return nil
}

// targetRows is a list of rows of hidden states and the tokens they should predict.
type targetRows struct {
	rows    []int32
	targets []int32
	results []*float64 // where each negative log-likelihood goes
	places  [][2]int   // sequence and position of the target, for errors
}

// add adds the row whose logits say how probable target is; the negative log-probability goes to
// result.
func (s *targetRows) add(row int, target int32, result *float64, sequence, position int) {
	s.rows = append(s.rows, int32(row))
	s.targets = append(s.targets, target)
	s.results = append(s.results, result)
	s.places = append(s.places, [2]int{sequence, position})
}

// scoreRows fills in the negative log-likelihoods: log sum_x exp(logit_x), from one pass of the
// fused head, minus the target's own logit, which is one dot product. The logits of a row, one for
// each token of the vocabulary, are never in memory.
func (m *Model) scoreRows(hidden *tensor.Dense, s *targetRows) error {
	w := &m.work
	width := m.config.Hidden
	for first := 0; first < len(s.rows); first += model.HeadRows {
		last := min(first+model.HeadRows, len(s.rows))
		n := last - first
		w.hidden = backend.Grow(m.device, w.hidden, n, width)
		w.target = backend.Grow(m.device, w.target, n, width)
		w.logSum = slices.Grow(w.logSum[:0], n)[:n]
		w.hiddenValues = slices.Grow(w.hiddenValues[:0], n*width)[:n*width]
		w.targetValues = slices.Grow(w.targetValues[:0], n*width)[:n*width]

		m.device.Gather(w.hidden, hidden, s.rows[first:last])
		m.device.Gather(w.target, m.tokens, s.targets[first:last])
		m.device.HeadStats(w.hidden, n, m.head, &backend.HeadStats{LogSum: w.logSum})
		m.device.Read(w.hiddenValues, w.hidden, 0)
		m.device.Read(w.targetValues, w.target, 0)
		for i := range n {
			var logit float64
			for j, v := range w.targetValues[i*width : (i+1)*width] {
				logit += float64(v) * float64(w.hiddenValues[i*width+j])
			}
			nll := w.logSum[i] - logit
			if nll-nll != 0 {
				place := s.places[first+i]
				return fmt.Errorf("token %d of sequence %d: the judge's logits are NaN or infinite, want "+
					"finite ones", place[1], place[0])
			}
			*s.results[first+i] = nll
		}
	}
	return nil
}
