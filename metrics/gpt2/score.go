package gpt2

import (
	"context"
	"fmt"

	"gorgonia.org/tensor"

	"unmask/attention"
	"unmask/backend"
	"unmask/kvcache"
	"unmask/nn"
)

// workspace is the memory of a pass.
type workspace struct {
	nn.Work
	rows attention.Rows
	ids  []int32
	kv   *kvcache.Cache // one block's, for passes that keep no keys and values

	x, target *tensor.Dense // [rows, hidden]: inputs of the head, embeddings of the targets
	xs, ts    []float32     // the same on the host
	logSum    []float64
}

// Score returns the negative log-likelihood, in nats, of every token but the first of each
// sequence: nll[i][j] = -log p(tokens[i][j+1] | tokens[i][:j+1]). Sequences may have different
// lengths, 0 to Context; what one gets does not depend on the others. Memory does not grow
// with the number of sequences.
func (m *Model) Score(ctx context.Context, tokens [][]int32) (nll [][]float64, err error) {
	defer backend.Recover(&err)
	for i, t := range tokens {
		if err := m.check(i, 0, t); err != nil {
			return nil, err
		}
	}
	nll = make([][]float64, len(tokens))
	for first := 0; first < len(tokens); {
		n, rows := 0, 0 // whole sequences
		for first+n < len(tokens) && (n == 0 || rows+len(tokens[first+n]) <= backend.GroupRows(m.b)) {
			rows += len(tokens[first+n])
			n++
		}
		if err := m.scoreGroup(ctx, first, tokens[first:first+n], nll[first:first+n]); err != nil {
			return nil, err
		}
		first += n
	}
	return nll, nil
}

func (m *Model) scoreGroup(ctx context.Context, first int, tokens [][]int32, nll [][]float64) error {
	w, longest := &m.work, 0
	w.start()
	for i, t := range tokens {
		w.append(i, 0, t)
		longest = max(longest, len(t))
	}
	if len(w.ids) > 0 {
		if w.kv == nil || w.kv.Batch < len(tokens) || w.kv.Length < longest {
			w.kv = kvcache.New(m.b, len(tokens), longest, []kvcache.Layer{{Heads: m.layer.Heads, HeadDim: m.layer.HeadDim}})
		}
		if err := m.pass(ctx, func(int) (k, v *tensor.Dense) { return w.kv.K[0], w.kv.V[0] }); err != nil {
			return err
		}
	}
	var s scoring
	row := 0
	for i, t := range tokens {
		nll[i] = make([]float64, max(len(t)-1, 0))
		for j := range nll[i] {
			s.add(row+j, t[j+1], &nll[i][j], first+i, j+1)
		}
		row += len(t)
	}
	return m.score(w.X, &s)
}

// State is what the network has read of a batch of sequences: keys and values of every block,
// and the last hidden states. Memory: 2*blocks*hidden*4 bytes for each of batch*length tokens.
type State struct {
	Cache *kvcache.Cache
	Read  []int // tokens of each sequence

	last *tensor.Dense // [batch, hidden]: the head's input after the last token
}

// NewState returns the state of batch sequences of which nothing is read and at most length
// tokens, 1 to Context, will be.
func (m *Model) NewState(batch, length int) (_ *State, err error) {
	defer backend.Recover(&err)
	if batch < 1 || length < 1 || length > m.cfg.Context {
		return nil, fmt.Errorf("a state of %d sequences of %d tokens, allowed are 1 or more of 1..%d", batch, length, m.cfg.Context)
	}
	layers := make([]kvcache.Layer, m.cfg.Blocks)
	for i := range layers {
		layers[i] = kvcache.Layer{Heads: m.layer.Heads, HeadDim: m.layer.HeadDim}
	}
	return &State{Cache: kvcache.New(m.b, batch, length, layers), Read: make([]int, batch), last: m.b.New(batch, m.cfg.Hidden)}, nil
}

// Extend reads more tokens of each of the state's sequences, none for some, and returns their
// negative log-likelihoods in nats as Score would: of every token but a sequence's very
// first. After an error the state is as before.
func (m *Model) Extend(ctx context.Context, s *State, tokens [][]int32) (nll [][]float64, err error) {
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
	w := &m.work
	w.start()
	for i, t := range tokens {
		w.append(i, s.Read[i], t)
	}
	nll = make([][]float64, len(tokens))
	if len(w.ids) == 0 {
		return nll, nil
	}
	if err := m.pass(ctx, func(i int) (k, v *tensor.Dense) { return s.Cache.K[i], s.Cache.V[i] }); err != nil {
		return nil, err
	}
	var before, now scoring
	var ends, seqs []int32
	row := 0
	for i, t := range tokens {
		if len(t) == 0 {
			continue
		}
		known := min(s.Read[i], 1) // whether the first of t is predicted by the last token read
		nll[i] = make([]float64, len(t)-1+known)
		if known == 1 {
			before.add(i, t[0], &nll[i][0], i, s.Read[i])
		}
		for j := range len(t) - 1 {
			now.add(row+j, t[j+1], &nll[i][known+j], i, s.Read[i]+j+1)
		}
		row += len(t)
		ends, seqs = append(ends, int32(row-1)), append(seqs, int32(i))
	}
	if err := m.score(s.last, &before); err != nil {
		return nil, err
	}
	if err := m.score(w.X, &now); err != nil {
		return nil, err
	}
	w.x = nn.Grow(m.b, w.x, len(ends), m.cfg.Hidden)
	m.b.Gather(w.x, w.X, ends)
	m.b.Scatter(s.last, w.x, seqs)
	for i, t := range tokens {
		s.Read[i] += len(t)
	}
	return nll, nil
}

// check checks the tokens of sequence i that follow the first `read`.
func (m *Model) check(i, read int, tokens []int32) error {
	if n := read + len(tokens); n > m.cfg.Context {
		return fmt.Errorf("sequence %d has %d tokens, allowed are 0..%d", i, n, m.cfg.Context)
	}
	for j, t := range tokens {
		if t < 0 || int(t) >= m.cfg.Vocab {
			return fmt.Errorf("token %d of sequence %d is %d, allowed are 0..%d", read+j, i, t, m.cfg.Vocab-1)
		}
	}
	return nil
}

func (w *workspace) start() {
	w.rows.Segs, w.rows.Pos, w.ids = w.rows.Segs[:0], w.rows.Pos[:0], w.ids[:0]
}

// append adds the next tokens of a sequence to the pass.
func (w *workspace) append(seq, pos int, tokens []int32) {
	if len(tokens) == 0 {
		return
	}
	w.rows.Segs = append(w.rows.Segs, backend.Segment{Seq: seq, Row: len(w.ids), Rows: len(tokens), Pos: pos})
	for j := range tokens {
		w.rows.Pos = append(w.rows.Pos, int32(pos+j))
	}
	w.ids = append(w.ids, tokens...)
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

// headRows bounds the rows of one call to the head, and so its working memory.
const headRows = 1024

// score fills in the negative log-likelihoods: log sum_x exp(logit_x) by one pass of the fused
// head, less the target's own logit, which is one dot product.
func (m *Model) score(hidden *tensor.Dense, s *scoring) error {
	w, width := &m.work, m.cfg.Hidden
	for first := 0; first < len(s.rows); first += headRows {
		last := min(first+headRows, len(s.rows))
		n := last - first
		w.x, w.target = nn.Grow(m.b, w.x, n, width), nn.Grow(m.b, w.target, n, width)
		w.logSum = grow(w.logSum, n)
		w.xs, w.ts = grow(w.xs, n*width), grow(w.ts, n*width)
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
				return fmt.Errorf("token %d of sequence %d: the judge's logits are NaN or infinite, wanted are finite ones", at[1], at[0])
			}
			*s.to[first+i] = nll
		}
	}
	return nil
}

func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
