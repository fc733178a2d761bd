package nn

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// GatedMLP is down(f(gate(x)) * up(x)) (Shazeer 2020, "GLU variants improve transformer").
type GatedMLP struct {
	Gate Linear `weight:"gate_proj"` // [inner, width]
	Up   Linear `weight:"up_proj"`   // [inner, width]
	Down Linear `weight:"down_proj"` // [width, inner]
}

// NewGatedMLP returns an MLP without biases.
func NewGatedMLP(width, inner int) GatedMLP {
	return GatedMLP{NewLinearNoBias(width, inner), NewLinearNoBias(width, inner),
		NewLinearNoBias(inner, width)}
}

// Load packs the three layers.
func (n *GatedMLP) Load(l *Loader) { l.Load(&n.Gate, &n.Up, &n.Down) }

// Inner computes dst[:rows] = f(gate(x)) * up(x), [rows, inner].
func (n *GatedMLP) Inner(b backend.Backend, dst, x *tensor.Dense, rows int, f backend.Activation) {
	n.Up.Apply(b, dst, x, rows, backend.Identity)
	n.Gate.Gated(b, dst, x, dst, rows, f)
}
