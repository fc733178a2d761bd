package nn

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Work is the working memory of transformer blocks. It grows to the largest pass and is reused, by
// one pass at a time.
type Work struct {
	X     *tensor.Dense // [rows, hidden]: the residual stream
	H     *tensor.Dense // [rows, hidden]: a branch
	Q     *tensor.Dense // [rows, hidden]: queries
	QKV   *tensor.Dense // [rows, 3*hidden]
	Inner *tensor.Dense // [rows, inner]: inside the MLP

	// allocated has X, H and Q as they were before KeepRows swapped them.
	allocated [3]*tensor.Dense
}

// Prepare makes room for a pass of `rows` rows and restores the order of the tensors, so that equal
// passes are equal calls to the device: a GPU replays the calls of an earlier pass.
func (w *Work) Prepare(b backend.Backend, rows, hidden, inner int) {
	if w.X == nil || w.X.Shape()[0] < rows {
		w.allocated = [3]*tensor.Dense{b.New(rows, hidden), b.New(rows, hidden), b.New(rows, hidden)}
		w.QKV = b.New(rows, 3*hidden)
		w.Inner = b.New(rows, inner)
	}
	w.X = w.allocated[0]
	w.H = w.allocated[1]
	w.Q = w.allocated[2]
}

// KeepRows moves some rows of X and Q to the front, in order, for blocks that compute only these.
// It overwrites H and swaps the three tensors. A device that records its calls first launches the
// earlier ones, because the kept rows differ from step to step.
func (w *Work) KeepRows(b backend.Backend, rows []int32) {
	backend.Send(b)
	b.Gather(w.H, w.X, rows)
	w.X, w.H = w.H, w.X
	b.Gather(w.H, w.Q, rows)
	w.Q, w.H = w.H, w.Q
}
