package gpt2

import (
	"context"
	"fmt"
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/kvcache"
	"unmask/model"
	"unmask/nn"
)

// workspace is the memory of a pass.
type workspace struct {
	nn.Work
	x, target *tensor.Dense // [rows, hidden]: inputs of the head, embeddings of the targets
	ends      *tensor.Dense // [batch, hidden]: inputs of the head after each sequence's last token
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
		if err := m.check(i, 0, t); err != nil {
			return nil, err
		}
		longest = max(longest, len(t))
	}
	b, _ := batch(tokens, make([]int, len(tokens)), longest)
	if err := m.passes.Full(b); err != nil {
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
		for row, at := range p.At {
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

// batch arranges the tokens that follow the first read[i] of each sequence i, and returns their
// rows.
func batch(tokens [][]int32, read []int, length int) (b *model.Batch, rows []int32) {
	b = &model.Batch{Size: len(tokens), Length: length, Lengths: make([]int, len(tokens)),
		Tokens: make([]int32, len(tokens)*length)}
	for i, t := range tokens {
		b.Lengths[i] = read[i] + len(t)
		copy(b.Tokens[i*length+read[i]:], t)
		for j := range t {
			rows = append(rows, int32(i*length+read[i]+j))
		}
	}
	return b, rows
}

// State holds what the network computed from the tokens read so far: keys and values of every
// block, and the last hidden states. It takes 2*blocks*hidden*4 bytes for each of batch*length
// tokens.
type State struct {
	Cache *kvcache.Cache
	Read  []int // number of tokens of each sequence

	last *tensor.Dense // [batch, hidden]: the head's input after the last token
}

// NewState returns the empty state of batch sequences, each of at most length tokens, 1 to
// Context.
func (m *Model) NewState(batch, length int) (_ *State, err error) {
	defer backend.Recover(&err)
	if batch < 1 || length < 1 || length > m.cfg.Context {
		return nil, fmt.Errorf("a state of %d sequences of %d tokens, want 1 or more of 1 to %d", batch,
			length, m.cfg.Context)
	}
	return &State{Cache: m.passes.NewCache(batch, length), Read: make([]int, batch),
		last: m.b.New(batch, m.cfg.Hidden)}, nil
}

// Extend reads more tokens of the state's sequences (for some there may be none) and returns their
// negative log-likelihoods in nats as Score does: of every token except a sequence's first one.
// After an error the state is unchanged.
func (m *Model) Extend(ctx context.Context, s *State, tokens [][]int32) (nll [][]float64,
	err error) {
	defer backend.Recover(&err)
	if len(tokens) != len(s.Read) {
		return nil, fmt.Errorf("%d sequences, the state has %d", len(tokens), len(s.Read))
	}
	for i, t := range tokens {
		if err := m.check(i, s.Read[i], t); err != nil {
			return nil, err
		}
		if n := s.Read[i] + len(t); n > s.Cache.Length {
			return nil, fmt.Errorf("sequence %d has %d tokens, the state holds %d", i, n, s.Cache.Length)
		}
	}
	b, rows := batch(tokens, s.Read, s.Cache.Length)
	b.Cache = s.Cache
	if err := m.passes.Some(b, rows); err != nil {
		return nil, err
	}
	nll = make([][]float64, len(tokens))
	var before scoring // of the first new tokens, which the last ones read earlier predict
	for i, t := range tokens {
		if len(t) > 0 {
			nll[i] = make([]float64, len(t)-1+min(s.Read[i], 1))
			if s.Read[i] > 0 {
				before.add(i, t[0], &nll[i][0], i, s.Read[i])
			}
		}
	}
	if err := m.score(s.last, &before); err != nil {
		return nil, err
	}
	if err := m.extend(ctx, s, b, nll); err != nil {
		return nil, err
	}
	for i, t := range tokens {
		s.Read[i] += len(t)
	}
	return nll, nil
}

// extend runs the passes of Extend over the batch, and keeps each sequence's last row in the state.
func (m *Model) extend(ctx context.Context, s *State, b *model.Batch, nll [][]float64) error {
	w := &m.work
	w.ends = nn.Grow(m.b, w.ends, len(nll), m.cfg.Hidden)
	var seqs []int32
	for p := m.passes.Next(); p != nil; p = m.passes.Next() {
		if err := m.pass(ctx, p); err != nil {
			return err
		}
		var now scoring
		var ends []int32
		for row, at := range p.At {
			i, next := int(at)/b.Length, int(at)%b.Length+1
			if next < b.Lengths[i] {
				now.add(row, b.Tokens[at+1], &nll[i][next-max(s.Read[i], 1)], i, next)
			} else {
				ends, seqs = append(ends, int32(row)), append(seqs, int32(i))
			}
		}
		if err := m.score(w.X, &now); err != nil {
			return err
		}
		w.x = nn.Grow(m.b, w.x, len(ends), m.cfg.Hidden)
		m.b.Gather(w.x, w.X, ends)
		m.b.Scatter(w.ends, w.x, seqs[len(seqs)-len(ends):])
	}
	w.x = nn.Grow(m.b, w.x, len(seqs), m.cfg.Hidden)
	m.b.Gather(w.x, w.ends, seqs)
	m.b.Scatter(s.last, w.x, seqs)
	return nil
}

// check checks the tokens of sequence i that follow the first `read`.
func (m *Model) check(i, read int, tokens []int32) error {
	if n := read + len(tokens); n > m.cfg.Context {
		return fmt.Errorf("sequence %d has %d tokens, want 0 to %d", i, n, m.cfg.Context)
	}
	for j, t := range tokens {
		if t < 0 || int(t) >= m.cfg.Vocab {
			return fmt.Errorf("token %d of sequence %d is %d, want 0 to %d", read+j, i, t, m.cfg.Vocab-1)
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
		w.x, w.target = nn.Grow(m.b, w.x, n, width), nn.Grow(m.b, w.target, n, width)
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
