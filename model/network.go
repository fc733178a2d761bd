package model

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// Network is a Refiner built from a function that computes one pass: it cuts batches into passes,
// keeps their results and runs the output head. A transformer embeds it, or uses it as
// Loaded.Denoiser. Its exported fields are set once.
type Network struct {
	Shared
	Passes
	ModelSpec Spec
	Head      backend.Head
	// the head of the marginals' Raw, where it differs: without a bias that forbids the mask
	RawHead *backend.Head
	Width   int // of the hidden states
	// floats of working memory for each row of a pass, for Sized
	RowSize int

	// Begin, when not nil, is called with each batch before its passes.
	Begin func(b *Batch) error
	// Pass computes the rows of p. It returns their hidden states [rows of left, Width] and the rows
	// that it computed to the end: p or, if p.Read is not nil, p.Pick(p.Read). Keys and values go
	// to the tensors of p.KV.
	Pass func(ctx context.Context, p *Pass) (hidden *tensor.Dense, left *Pass, err error)
	// Finish, when not nil, returns the head's input for n hidden states [n, Width], a copy that it
	// may change.
	Finish func(hidden *tensor.Dense, n int) *tensor.Dense
	// Last, when not nil, is Finish for HiddenStates: it ends before the head's own layers.
	FinishStates func(hidden *tensor.Dense, n int) *tensor.Dense

	// SharesWith, when not nil, is a network whose lock and working memory are used instead of this
	// one's: a pass of either makes the Marginals of both invalid.
	SharesWith *Network

	memory    networkMemory
	marginals networkMarginals
	shifted   Batch // with Spec.Shifted, the batch with other rows to read
}

// networkMemory is the memory of the latest passes' results.
type networkMemory struct {
	hidden   *tensor.Dense // [sequences*(Extra+length), Width]
	finished *tensor.Dense // [rows, Width] the hidden states that the head reads
	rows     []int32       // their indexes in hidden
	read     []int32
}

// networkMarginals are the Marginals of a Network.
type networkMarginals struct {
	HeadMarginals
	raw HeadMarginals
	of  *Network
}

// Raw implements model.Raw: outputs that are not shifted, through Network.RawHead.
func (m *networkMarginals) Raw() Marginals { return &m.raw }

// Hidden implements HiddenStates.
func (m *networkMarginals) Hidden(rows []int32) (states []float32, width int, err error) {
	defer backend.Recover(&err)
	last := m.of.Finish
	if m.of.FinishStates != nil {
		last = m.of.FinishStates
	}
	for part := range slices.Chunk(rows, HeadRows) {
		x := m.of.project(part, false, last)
		width = x.Shape()[1]
		read := make([]float32, len(part)*width)
		m.Backend.Read(read, x, 0)
		states = append(states, read...)
	}
	return states, width, nil
}

// Spec implements Denoiser.
func (n *Network) Spec() Spec { return n.ModelSpec }

// Locker implements Locker.
func (n *Network) Locker() sync.Locker { return n.owner().Shared.Locker() }

// owner returns the network whose lock and memory n uses.
func (n *Network) owner() *Network {
	for n.SharesWith != nil {
		n = n.SharesWith
	}
	return n
}

// MaxSequences implements Sized.
func (n *Network) MaxSequences(length int, cached bool) int {
	sequence := 4 * (n.Extra + length) * n.Width
	if cached {
		sequence += n.Bytes(length)
	}
	return MaxSequences(n.Backend, n.Extra+length, sequence, 4*n.RowSize)
}

// Forward implements Denoiser.
func (n *Network) Forward(ctx context.Context, b *Batch) (Marginals, error) {
	return n.compute(ctx, b, n.Full)
}

// Refine implements Refiner. Extra rows keep the keys and values of the full pass. With
// Spec.Shifted it also computes the rows that predict the given ones.
func (n *Network) Refine(ctx context.Context, b *Batch, rows []int32) (Marginals, error) {
	if n.ModelSpec.Shifted {
		rows = appendSources(slices.Clone(rows), rows, b.Length)
		slices.Sort(rows)
		rows = slices.Compact(rows)
	}
	return n.ComputeRows(ctx, b, rows)
}

// ComputeRows is Refine without the rows that it adds where predictions are shifted.
func (n *Network) ComputeRows(ctx context.Context, b *Batch, rows []int32) (Marginals, error) {
	for i, r := range rows {
		if r < 0 || int(r) >= b.Size*b.Length {
			return nil, fmt.Errorf("row %d of a partial pass is %d, want 0 to %d", i, r, b.Size*b.Length-1)
		}
	}
	return n.compute(ctx, b, func(b *Batch) error { return n.Partial(b, rows) })
}

// compute cuts a batch into passes, which leave their results in n.memory.hidden.
func (n *Network) compute(ctx context.Context, b *Batch, cut func(*Batch) error) (_ Marginals,
	err error) {
	defer backend.Recover(&err)
	if err := b.Check(n.ModelSpec); err != nil {
		return nil, err
	}
	if n.Begin != nil {
		if err := n.Begin(b); err != nil {
			return nil, err
		}
	}
	w := &n.owner().memory
	if n.ModelSpec.Shifted && b.ReadRows != nil {
		w.read = appendSources(slices.Grow(w.read, 1)[:0], b.ReadRows, b.Length)
		n.shifted = *b
		n.shifted.ReadRows = w.read
		b = &n.shifted
	}
	if err := cut(b); err != nil {
		return nil, err
	}
	w.hidden = backend.Grow(n.Backend, w.hidden, b.Size*(n.Extra+b.Length), n.Width)
	for p := n.Next(); p != nil; p = n.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		hidden, left, err := n.Pass(ctx, p)
		if err != nil {
			return nil, err
		}
		if left.Len() > 0 {
			n.Backend.Scatter(w.hidden, hidden, left.ResultRows)
		}
	}
	return n.results(b), nil
}

// results returns the marginals of the latest passes, over a batch.
func (n *Network) results(b *Batch) *networkMarginals {
	m := &n.marginals
	if m.Project == nil {
		raw := n.Head
		if n.RawHead != nil {
			raw = *n.RawHead
		}
		m.HeadMarginals = HeadMarginals{Backend: n.Backend, Head: n.Head,
			Project: func(rows []int32) *tensor.Dense {
				return n.project(rows, n.ModelSpec.Shifted,
					n.Finish)
			}}
		m.raw = HeadMarginals{Backend: n.Backend, Head: raw,
			Project: func(rows []int32) *tensor.Dense { return n.project(rows, false, n.Finish) }}
		m.of = n
	}
	m.Length, m.raw.Length = b.Length, b.Length
	m.Rows, m.raw.Rows = b.Size*b.Length, b.Size*b.Length
	return m
}

// project returns what finish makes of rows of the latest batch, such as the head's input.
func (n *Network) project(rows []int32, shifted bool,
	finish func(hidden *tensor.Dense, n int) *tensor.Dense) *tensor.Dense {
	w, length := &n.owner().memory, n.marginals.Length
	if shifted {
		w.rows = appendSources(w.rows[:0], rows, length)
		rows = w.rows
	}
	if n.Extra > 0 {
		w.rows = append(w.rows[:0], rows...)
		for i, row := range w.rows {
			w.rows[i] = row + (row/int32(length)+1)*int32(n.Extra)
		}
		rows = w.rows
	}
	w.finished = backend.Grow(n.Backend, w.finished, len(rows), n.Width)
	n.Backend.Gather(w.finished, w.hidden, rows)
	if finish == nil {
		return w.finished
	}
	return finish(w.finished, len(rows))
}

// appendSources appends the rows whose outputs predict the given rows where predictions are
// shifted: the rows before, except that position 0 keeps its own.
func appendSources(to, rows []int32, length int) []int32 {
	for _, r := range rows {
		if int(r)%length > 0 {
			r--
		}
		to = append(to, r)
	}
	return to
}
