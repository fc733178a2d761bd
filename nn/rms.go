package nn

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/weights"
)

// RMSNorm is x/sqrt(mean(x^2)+eps)*weight (Zhang and Sennrich 2019, "Root mean square layer
// normalization").
type RMSNorm struct {
	Weight weights.Param `weight:"weight"` // [width]; no shape if the network has no such norm
	Eps    float32

	norm backend.Norm
}

// NewRMSNorm returns a norm of rows of this width.
func NewRMSNorm(width int, eps float32) RMSNorm {
	return RMSNorm{Weight: weights.Param{Shape: []int{width}}, Eps: eps}
}

// Load copies the norm to the device.
func (n *RMSNorm) Load(l *Loader) {
	n.norm = backend.Norm{Scale: l.Vector(l.Floats(&n.Weight)), Eps: n.Eps}
}

// Apply computes dst[:rows] = norm(x[:rows]); dst may be x.
func (n *RMSNorm) Apply(b backend.Backend, dst, x *tensor.Dense, rows int) {
	b.RMSNorm(dst, x, rows, n.norm)
}

// Norm returns the norm in the backend's form, for example for the heads of attention.
func (n *RMSNorm) Norm() backend.Norm { return n.norm }
