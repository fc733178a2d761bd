package nn

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/weights"
)

// GatedMLP is down(f(gate(x)) * up(x)) (Shazeer 2020, "GLU variants improve transformer").
type GatedMLP struct {
	Gate Linear `weight:"gate_proj"` // [inner, width]
	Up   Linear `weight:"up_proj"`   // [inner, width]
	Down Linear `weight:"down_proj"` // [width, inner]
}

// NewGatedMLP returns an MLP without biases.
func NewGatedMLP(width, inner int) GatedMLP {
	return GatedMLP{
		Gate: NewLinearNoBias(width, inner),
		Up:   NewLinearNoBias(width, inner),
		Down: NewLinearNoBias(inner, width),
	}
}

// Load packs the three layers.
func (n *GatedMLP) Load(l *Loader) { l.Load(&n.Gate, &n.Up, &n.Down) }

// Inner computes dst[:rows] = f(gate(x)) * up(x), dst [rows, inner] and x [rows, width]. Down is
// left to the caller, who may add its output to the residual stream.
func (n *GatedMLP) Inner(b backend.Backend, dst, x *tensor.Dense, rows int, f backend.Activation) {
	n.Up.Apply(b, dst, x, rows, backend.Identity)
	n.Gate.ApplyGated(b, dst, x, dst, rows, f)
}

// LoadJoined packs the gate and the up projection from one parameter [2*inner, width], the gate's
// rows first (ModernBERT), and the down projection.
func (n *GatedMLP) LoadJoined(l *Loader, gateUp *weights.Param) {
	inner := gateUp.Shape[0] / 2
	width := gateUp.Shape[1]
	packHalf := func(firstRow int) backend.Matrix {
		return l.Backend.Pack(inner, width, l.Precision, func(i int, dst []float32) {
			l.Check(gateUp.ReadFloat32s(dst, (firstRow+i)*width))
		})
	}
	n.Gate.w = packHalf(0)
	n.Up.w = packHalf(inner)
	l.Release(gateUp)
	n.Down.Load(l)
}

// ApplyGated computes dst[:rows] = f(x[:rows] W^T + b) * times[:rows], one half of a gated MLP
// (Shazeer 2020, "GLU variants improve transformer"). dst may be times.
func (n *Linear) ApplyGated(b backend.Backend, dst, x, times *tensor.Dense, rows int,
	f backend.Activation) {
	b.Linear(dst, x, rows, n.w, backend.Epilogue{Bias: n.b, Act: f, Times: times})
}
