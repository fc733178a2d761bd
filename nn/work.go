package nn

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Work is the working memory of transformer blocks. It grows to the largest pass seen and is
// used again, by one pass at a time.
type Work struct {
	X, H, Q *tensor.Dense // [rows, hidden]: residual stream, branch, queries
	QKV     *tensor.Dense // [rows, 3*hidden]
	Inner   *tensor.Dense // [rows, inner]: inside the MLP
}

// Prepare makes room for a pass of `rows` rows.
func (w *Work) Prepare(b backend.Backend, rows, hidden, inner int) {
	if w.X == nil || w.X.Shape()[0] < rows {
		w.X, w.H, w.Q = b.New(rows, hidden), b.New(rows, hidden), b.New(rows, hidden)
		w.QKV, w.Inner = b.New(rows, 3*hidden), b.New(rows, inner)
	}
}

// Keep makes some rows of X and Q the first ones, in order, for blocks that compute no more than
// these. It overwrites H, and the three tensors change places.
func (w *Work) Keep(b backend.Backend, rows []int32) {
	b.Gather(w.H, w.X, rows)
	w.X, w.H = w.H, w.X
	b.Gather(w.H, w.Q, rows)
	w.Q, w.H = w.H, w.Q
}

// Grow returns t, or a new tensor when it has fewer than `rows` rows.
func Grow(b backend.Backend, t *tensor.Dense, rows, width int) *tensor.Dense {
	if t == nil || t.Shape()[0] < rows {
		return b.New(rows, width)
	}
	return t
}
