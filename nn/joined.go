package nn

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Joined is several layers of one input, packed as one matrix: their outputs stand in a row, as
// queries, keys and values of attention.
type Joined struct {
	w backend.Matrix
	b *tensor.Dense
}

// Load packs layers of the same shape, all with a bias or none.
func (j *Joined) Load(l *Loader, layers ...*Linear) {
	in, out := layers[0].Weight.Shape[1], layers[0].Weight.Shape[0]
	var bias []float32
	for _, p := range layers {
		bias = append(bias, l.Floats(&p.Bias)...)
	}
	j.w = l.Backend.Pack(len(layers)*out, in, l.Precision, func(i int, dst []float32) {
		l.Note(layers[i/out].Weight.ReadFloat32s(dst, i%out*in))
	})
	for _, p := range layers {
		l.Release(&p.Weight)
	}
	j.b = l.Vector(bias)
}

// Apply computes dst[:rows] = x[:rows] W^T + b, [*, layers*out].
func (j *Joined) Apply(b backend.Backend, dst, x *tensor.Dense, rows int) {
	b.Linear(dst, x, rows, j.w, backend.Epilogue{Bias: j.b})
}
