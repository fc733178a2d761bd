package nn

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/weights"
)

// JoinedLinear computes several linear layers with one input as one product, with their outputs in
// order. One large product is faster than three small ones, and reads the input once.
type JoinedLinear struct {
	w backend.Matrix // [sum of outputs, in]
	b *tensor.Dense  // [sum of outputs], nil where no layer has a bias
}

// Load packs the layers' weights as one matrix.
func (n *JoinedLinear) Load(l *Loader, layers ...*Linear) {
	out := 0
	first := make([]int, len(layers)) // output of each layer's first
	params := make([]*weights.Param, len(layers))
	for i, p := range layers {
		first[i] = out
		params[i] = &p.Weight
		out += p.Weight.Shape[0]
	}
	n.w = l.Matrices(params...)
	biased := false
	bias := make([]float32, out)
	for i, p := range layers {
		biased = biased || p.Bias.Shape != nil
		copy(bias[first[i]:], l.Floats(&p.Bias))
	}
	if biased {
		n.b = l.Vector(bias)
	}
}

// Apply computes dst[:rows] = x[:rows] W^T + b, dst [rows, sum of outputs].
func (n *JoinedLinear) Apply(b backend.Backend, dst, x *tensor.Dense, rows int) {
	b.Linear(dst, x, rows, n.w, backend.Epilogue{Bias: n.b})
}
