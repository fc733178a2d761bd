package gpt2

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
	"unmask/weights"
)

// conv1D is a linear layer that GPT-2 stores transposed: y = x W + b.
type conv1D struct {
	Weight weights.Param `weight:"weight"` // [in, out]
	Bias   weights.Param `weight:"bias"`   // [out]

	w backend.Matrix
	b *tensor.Dense
}

func newConv1D(in, out int) conv1D {
	return conv1D{Weight: weights.Param{Shape: []int{in, out}}, Bias: weights.Param{Shape: []int{out}}}
}

func (n *conv1D) load(l *nn.Loader) {
	in, out := n.Weight.Shape[0], n.Weight.Shape[1]
	v := l.Floats(&n.Weight)
	n.w = l.Backend.Pack(out, in, l.Precision, func(i int, dst []float32) {
		for j := range dst {
			dst[j] = v[j*out+i]
		}
	})
	n.b = l.Vector(l.Floats(&n.Bias))
}

// apply computes dst[:rows] = f(x[:rows] W + b).
func (n *conv1D) apply(b backend.Backend, dst, x *tensor.Dense, rows int, f backend.Activation) {
	b.Linear(dst, x, rows, n.w, backend.Epilogue{Bias: n.b, Act: f})
}

// add computes dst[:rows] += x[:rows] W + b.
func (n *conv1D) add(b backend.Backend, dst, x *tensor.Dense, rows int) {
	b.Linear(dst, x, rows, n.w, backend.Epilogue{Bias: n.b, Add: true})
}
