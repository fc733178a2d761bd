package llama

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// workspace is the memory of a pass.
type workspace struct {
	x, h        *tensor.Dense // [rows, hidden]: residual stream, branch
	qkv         *tensor.Dense // [rows, (heads+2*kvHeads)*headDim]
	q, attended *tensor.Dense // [rows, heads*headDim]
	inner       *tensor.Dense // [rows, mlp]
	lowRank     *tensor.Dense // [rows, rank of the adapter]
	experts     expertWork
	conv        convWork

	// rotary has cosines and sines of the positions of the longest batch so far.
	rotary *backend.Rotary

	// queryScales are the factors on queries [rows], less 1; empty if all factors are 1.
	queryScales []float32

	// rowNumbers are 0, 1, 2 ..., for kernels that take lists of rows.
	rowNumbers []int32
}

// resize makes room for a pass of `rows` rows.
func (w *workspace) resize(b backend.Backend, c *Config, rows int) {
	if w.x != nil && w.x.Shape()[0] >= rows {
		return
	}
	queries := c.Heads * c.HeadDim
	keys := c.KVHeads * c.HeadDim
	w.x = b.New(rows, c.Hidden)
	w.h = b.New(rows, c.Hidden)
	w.q = b.New(rows, queries)
	w.attended = b.New(rows, queries)
	w.qkv = b.New(rows, queries+2*keys)
	w.inner = b.New(rows, c.MLP)
}

// keepRows moves some rows of x and q to the front, in order.
func (w *workspace) keepRows(b backend.Backend, rows []int32) {
	b.Gather(w.h, w.x, rows)
	w.x, w.h = w.h, w.x
	b.Gather(w.attended, w.q, rows)
	w.q, w.attended = w.attended, w.q
}

// keepBranchRows moves some rows of x and h to the front, in order. Unlike keepRows it cannot
// exchange the two matrices, because both are needed, so the rows go through a third.
func (w *workspace) keepBranchRows(b backend.Backend, rows []int32) {
	width := backend.Width(w.x)
	w.conv.resize(b, len(rows), width)
	for _, t := range []*tensor.Dense{w.x, w.h} {
		b.Gather(w.conv.near, t, rows)
		b.Gather(t, w.conv.near, w.firstRows(len(rows)))
	}
}

// firstRows returns 0, 1, ... of n rows.
func (w *workspace) firstRows(n int) []int32 {
	for i := len(w.rowNumbers); i < n; i++ {
		w.rowNumbers = append(w.rowNumbers, int32(i))
	}
	return w.rowNumbers[:n]
}

// rowSize returns the floats of working memory for each row of a pass, including its keys and
// values of one layer.
func (c *Config) rowSize() int {
	n := 2*c.Hidden + c.MLP + (3*c.Heads+4*c.KVHeads)*c.HeadDim
	if c.Conv != nil {
		n += 4 * c.Hidden
	}
	if c.MoE != nil {
		n += c.MoE.rowSize(c.Hidden)
	}
	return n
}
