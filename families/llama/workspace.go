package llama

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// workspace is the memory of a pass.
type workspace struct {
	x, h        *tensor.Dense // [rows, hidden]: residual stream, branch
	qkv         *tensor.Dense // [rows, (heads+2*kv)*headDim]
	q, attended *tensor.Dense // [rows, heads*headDim]
	inner       *tensor.Dense // [rows, mlp]
	low         *tensor.Dense // [rows, rank of the adapter]
	experts     expertWork

	rotary *backend.Rotary // of all positions
	scales []float32       // [rows], of queries; empty: all are 1
	same   []int32         // 0, 1, 2 ...
}

// prepare makes room for a pass of `rows` rows.
func (w *workspace) prepare(b backend.Backend, c *Config, rows int) {
	if w.x != nil && w.x.Shape()[0] >= rows {
		return
	}
	heads := c.Heads * c.HeadDim
	w.x, w.h = b.New(rows, c.Hidden), b.New(rows, c.Hidden)
	w.q, w.attended = b.New(rows, heads), b.New(rows, heads)
	w.qkv, w.inner = b.New(rows, heads+2*c.KV*c.HeadDim), b.New(rows, c.MLP)
}

// keep moves some rows of x and q to the front, in order.
func (w *workspace) keep(b backend.Backend, rows []int32) {
	b.Gather(w.h, w.x, rows)
	w.x, w.h = w.h, w.x
	b.Gather(w.attended, w.q, rows)
	w.q, w.attended = w.attended, w.q
}

// rowSize returns the floats of working memory for each row of a pass, including its keys and
// values of one layer.
func (c *Config) rowSize() int {
	n := 2*c.Hidden + c.MLP + (3*c.Heads+4*c.KV)*c.HeadDim
	if c.MoE != nil {
		n += c.MoE.rowSize(c.Hidden)
	}
	return n
}
