package cpu

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/gemm"
)

// Linear computes dst[:rows] = epilogue(x[:rows] W^T).
func (b *Backend) Linear(dst, x *tensor.Dense, rows int, w backend.Matrix, e backend.Epilogue) {
	backend.CheckLinear(dst, x, rows, w, e)
	b.mu.Lock()
	defer b.done()
	p := &b.product
	p.target(dst.Float32s(), w.Out(), e)
	p.x = rowSource{x.Float32s(), w.In(), w.In()}
	p.run(&p.x, rows, w.(*matrix))
}

// target sets where the product goes and what is done to it.
func (p *product) target(dst []float32, stride int, e backend.Epilogue) {
	p.dst, p.stride = dst, stride
	p.bias, p.times, p.act, p.add = data(e.Bias), data(e.Times), e.Act, e.Add
}

// rowSource packs rows of a matrix, stride values apart.
type rowSource struct {
	x             []float32
	stride, width int
}

func (s *rowSource) pack(k *gemm.Kernel, a operand, _ *worker, first, rows int) {
	k.PackA(a.data, a.scale, s.x[first*s.stride:], s.stride, rows, s.width)
}
