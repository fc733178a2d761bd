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

	// ModelSpec is what Spec returns.
	ModelSpec Spec

	// Head is the output head of the marginals, and RawHead that of their Raw where it differs: it
	// is without a bias that forbids the mask.
	Head    backend.Head
	RawHead *backend.Head

	// Width is that of the hidden states.
	Width int

	// RowSize is the number of floats of working memory for each row of a pass, for Sized.
	RowSize int

	// Begin, when not nil, is called with each batch before its passes.
	Begin func(b *Batch) error

	// Pass computes the rows of p. It returns their hidden states [rows of left, Width] and the rows
	// that it computed to the end: p or, if p.ReadRows is not nil, p.Pick(p.ReadRows). Keys and values
	// go to the tensors of p.KV.
	Pass func(ctx context.Context, p *Pass) (hidden *tensor.Dense, left *Pass, err error)

	// Finish, when not nil, returns the head's input for n hidden states [n, Width], a copy that it
	// may change.
	Finish func(hidden *tensor.Dense, n int) *tensor.Dense

	// FinishStates, when not nil, is Finish for HiddenStates: it ends before the head's own layers.
	FinishStates func(hidden *tensor.Dense, n int) *tensor.Dense

	// SharesWith, when not nil, is a network whose lock and working memory are used instead of this
	// one's: a pass of either makes the Marginals of both invalid.
	SharesWith *Network

	memory    networkMemory
	marginals networkMarginals

	// shifted is, with Spec.Shifted, a copy of the batch that reads the rows which predict those that
	// the caller reads.
	shifted Batch
}

// networkMemory is the memory of the latest passes' results.
type networkMemory struct {
	// hidden, [sequences*(Extra+length), Width], are the hidden states of all passes of the batch.
	hidden *tensor.Dense

	// gathered, [rows, Width], are the hidden states of one call of the head, and rows their indexes
	// in hidden.
	gathered *tensor.Dense
	rows     []int32

	// read is the memory of shifted.ReadRows.
	read []int32
}

// networkMarginals are the Marginals of a Network.
type networkMarginals struct {
	HeadMarginals
	raw     HeadMarginals
	network *Network
}

// Raw implements model.Raw: outputs that are not shifted, through Network.RawHead.
func (m *networkMarginals) Raw() Marginals { return &m.raw }

// Hidden implements HiddenStates.
func (m *networkMarginals) Hidden(rows []int32) (states []float32, width int, err error) {
	defer backend.Recover(&err)
	n := m.network
	finish := n.Finish
	if n.FinishStates != nil {
		finish = n.FinishStates
	}
	for part := range slices.Chunk(rows, HeadRows) {
		x := n.project(part, false, finish)
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
			return nil, fmt.Errorf("row %d of a partial pass is %d, want 0 to %d", i, r,
				b.Size*b.Length-1)
		}
	}
	return n.compute(ctx, b, func(b *Batch) error { return n.Partial(b, rows) })
}

// compute makes the passes into which begin cuts a batch. They leave their results in
// n.memory.hidden.
func (n *Network) compute(ctx context.Context, b *Batch, begin func(*Batch) error) (_ Marginals,
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

	memory := &n.owner().memory
	if n.ModelSpec.Shifted && b.ReadRows != nil {
		// The list must not be nil even if it is empty: nil would mean all rows.
		memory.read = appendSources(slices.Grow(memory.read, 1)[:0], b.ReadRows, b.Length)
		n.shifted = *b
		n.shifted.ReadRows = memory.read
		b = &n.shifted
	}
	if err := begin(b); err != nil {
		return nil, err
	}
	rows := b.Size * (n.Extra + b.Length)
	memory.hidden = backend.Grow(n.Backend, memory.hidden, rows, n.Width)
	for p := n.Next(); p != nil; p = n.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		hidden, left, err := n.Pass(ctx, p)
		if err != nil {
			return nil, err
		}
		if left.Len() > 0 {
			n.Backend.Scatter(memory.hidden, hidden, left.ResultRows)
		}
	}
	return n.marginalsOver(b), nil
}

// marginalsOver returns the marginals of the latest passes, over a batch.
func (n *Network) marginalsOver(b *Batch) *networkMarginals {
	m := &n.marginals
	if m.network == nil {
		n.makeMarginals(m)
	}
	for _, h := range []*HeadMarginals{&m.HeadMarginals, &m.raw} {
		h.Length = b.Length
		h.Rows = b.Size * b.Length
	}
	return m
}

// makeMarginals sets what is the same for all batches.
func (n *Network) makeMarginals(m *networkMarginals) {
	m.network = n
	m.HeadMarginals = HeadMarginals{
		Backend: n.Backend,
		Head:    n.Head,
		Project: func(rows []int32) *tensor.Dense {
			return n.project(rows, n.ModelSpec.Shifted, n.Finish)
		},
	}
	m.raw = HeadMarginals{
		Backend: n.Backend,
		Head:    n.Head,
		Project: func(rows []int32) *tensor.Dense { return n.project(rows, false, n.Finish) },
	}
	if n.RawHead != nil {
		m.raw.Head = *n.RawHead
	}
}

// project returns what finish makes of rows of the latest batch, such as the head's input. With
// shifted these are the rows that predict the given ones.
func (n *Network) project(rows []int32, shifted bool,
	finish func(hidden *tensor.Dense, n int) *tensor.Dense) *tensor.Dense {
	memory := &n.owner().memory
	length := n.marginals.Length
	if shifted {
		memory.rows = appendSources(memory.rows[:0], rows, length)
		rows = memory.rows
	}
	if n.Extra > 0 { // each sequence of hidden begins with extra rows
		memory.rows = append(memory.rows[:0], rows...)
		for i, row := range memory.rows {
			memory.rows[i] = row + (row/int32(length)+1)*int32(n.Extra)
		}
		rows = memory.rows
	}
	memory.gathered = backend.Grow(n.Backend, memory.gathered, len(rows), n.Width)
	n.Backend.Gather(memory.gathered, memory.hidden, rows)
	if finish == nil {
		return memory.gathered
	}
	return finish(memory.gathered, len(rows))
}

// appendSources appends the rows whose outputs predict the given rows where predictions are
// shifted: the rows before, except that position 0 keeps its own.
func appendSources(sources, rows []int32, length int) []int32 {
	for _, r := range rows {
		if int(r)%length > 0 {
			r--
		}
		sources = append(sources, r)
	}
	return sources
}
