package cpu

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Linear computes dst[:rows] = epilogue(x[:rows] W^T).
func (b *Backend) Linear(dst, x *tensor.Dense, rows int, w backend.Matrix, e backend.Epilogue) {
	backend.CheckLinear(dst, x, rows, w, e)
	b.mu.Lock()
	defer b.done()
	if rows > 0 {
		b.linearOf(dst.Float32s(), x.Float32s(), rows, w.(*matrix), e)
	}
}

// target sets the product's destination and epilogue.
func (p *product) target(dst []float32, stride int, e backend.Epilogue) {
	p.dst, p.stride = dst, stride
	p.bias, p.times, p.act, p.add = data(e.Bias), data(e.Times), e.Act, e.Add
}

// rowSource packs rows of a matrix that are `stride` values apart.
type rowSource struct {
	x             []float32
	stride, width int
}

func (s *rowSource) pack(m *matrix, a operand, w *worker, first, rows int) {
	m.pack(a, s.x[first*s.stride:], s.stride, rows, w)
}
