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
	x, target *tensor.Dense // [rows, hidden]: inputs of the head, embeddings of the targets
	xs, ts    []float32     // x and target on the host
	logSum    []float64
}

// Score returns the negative log-likelihood, in nats, of every token but the first of each
// sequence: nll[i][j] = -log p(tokens[i][j+1] | tokens[i][:j+1]). Sequences may have different
// lengths, 0 to Context; what one gets does not depend on the others.
func (m *Model) Score(ctx context.Context, tokens [][]int32) (nll [][]float64, err error) {
	defer backend.Recover(&err)
	longest := 0
	for i, t := range tokens {
		if err := m.check(i, t); err != nil {
			return nil, err
		}
		longest = max(longest, len(t))
	}
	if err := m.passes.Full(batch(tokens, longest)); err != nil {
		return nil, err
	}
	nll = make([][]float64, len(tokens))
	for i, t := range tokens {
		nll[i] = make([]float64, max(len(t)-1, 0))
	}
	for p := m.passes.Next(); p != nil; p = m.passes.Next() {
		if err := m.pass(ctx, p); err != nil {
			return nil, err
		}
		var s scoring
		for row, at := range p.ResultRows {
			if i, next := int(at)/longest, int(at)%longest+1; next < len(tokens[i]) {
				s.add(row, tokens[i][next], &nll[i][next-1], i, next)
			}
		}
		if err := m.score(m.work.X, &s); err != nil {
			return nil, err
		}
	}
	return nll, nil
}

// batch arranges sequences of at most `length` tokens.
func batch(tokens [][]int32, length int) *model.Batch {
	b := &model.Batch{Size: len(tokens), Length: length, Lengths: make([]int, len(tokens)),
		Tokens: make([]int32, len(tokens)*length)}
	for i, t := range tokens {
		b.Lengths[i] = len(t)
		copy(b.Tokens[i*length:], t)
	}
	return b
}

// check checks the tokens of sequence i.
func (m *Model) check(i int, tokens []int32) error {
	if n := len(tokens); n > m.cfg.Context {
		return fmt.Errorf("sequence %d has %d tokens, want 0 to %d", i, n, m.cfg.Context)
	}
	for j, t := range tokens {
		if t < 0 || int(t) >= m.cfg.Vocab {
			return fmt.Errorf("token %d of sequence %d is %d, want 0 to %d", j, i, t, m.cfg.Vocab-1)
		}
	}
	return nil
}

// scoring is a list of rows of hidden states and the tokens they should predict.
type scoring struct {
	rows, targets []int32
	to            []*float64
	where         [][2]int // sequence and position of the target, for errors
}

func (s *scoring) add(row int, target int32, to *float64, seq, pos int) {
	s.rows, s.targets = append(s.rows, int32(row)), append(s.targets, target)
	s.to, s.where = append(s.to, to), append(s.where, [2]int{seq, pos})
}

// score fills in the negative log-likelihoods: log sum_x exp(logit_x), from one pass of the fused
// head, minus the target's own logit, which is one dot product.
func (m *Model) score(hidden *tensor.Dense, s *scoring) error {
	w, width := &m.work, m.cfg.Hidden
	for first := 0; first < len(s.rows); first += model.HeadRows {
		last := min(first+model.HeadRows, len(s.rows))
		n := last - first
		w.x, w.target = backend.Grow(m.b, w.x, n, width), backend.Grow(m.b, w.target, n, width)
		w.logSum = slices.Grow(w.logSum[:0], n)[:n]
		w.xs, w.ts = slices.Grow(w.xs[:0], n*width)[:n*width], slices.Grow(w.ts[:0], n*width)[:n*width]
		m.b.Gather(w.x, hidden, s.rows[first:last])
		m.b.Gather(w.target, m.tokens, s.targets[first:last])
		m.b.HeadStats(w.x, n, m.head, &backend.HeadStats{LogSum: w.logSum})
		m.b.Read(w.xs, w.x, 0)
		m.b.Read(w.ts, w.target, 0)
		for i := range n {
			var logit float64
			for j, v := range w.ts[i*width : (i+1)*width] {
				logit += float64(v) * float64(w.xs[i*width+j])
			}
			nll := w.logSum[i] - logit
			if nll-nll != 0 {
				at := s.where[first+i]
				return fmt.Errorf("token %d of sequence %d: the judge's logits are NaN or infinite, want "+
					"finite ones", at[1], at[0])
			}
			*s.to[first+i] = nll
		}
	}
	return nil
}
