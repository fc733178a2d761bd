package nn

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Gated computes dst[:rows] = f(x[:rows] W^T + b) * times[:rows], one half of a gated MLP (Shazeer
// 2020, "GLU variants improve transformer"). dst may be times.
func (n *Linear) Gated(b backend.Backend, dst, x, times *tensor.Dense, rows int,
	f backend.Activation) {
	b.Linear(dst, x, rows, n.w, backend.Epilogue{Bias: n.b, Act: f, Times: times})
}
