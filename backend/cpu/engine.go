package cpu

import (
	"fmt"
	"runtime"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/simd/gemm"
)

// MatMul computes prealloc = a b for gorgonia. Products of float32 matrices, transposed or
// not, run on this backend's kernels; all others on gorgonia's default engine.
func (b *Backend) MatMul(x, y, prealloc tensor.Tensor) error {
	left, ok := view(x)
	right, ok2 := view(y)
	dst, ok3 := view(prealloc)
	if !ok || !ok2 || !ok3 || dst.right != 1 {
		return b.StdEng.MatMul(x, y, prealloc)
	}
	if left.columns != right.rows || dst.rows != left.rows || dst.columns != right.columns {
		return fmt.Errorf("cpu: MatMul: %v times %v into %v", x.Shape(), y.Shape(), prealloc.Shape())
	}
	b.mu.Lock()
	defer b.done()
	b.engine.run(b, dst, left, right)
	runtime.KeepAlive(x)
	runtime.KeepAlive(y)
	runtime.KeepAlive(prealloc)
	return nil
}

// strided is a matrix in memory: element (i, j) is data[i*down+j*right].
type strided struct {
	data          []float32
	rows, columns int
	down, right   int
}

// view returns the memory of a float32 matrix that is contiguous, or its transpose.
func view(t tensor.Tensor) (strided, bool) {
	d, ok := t.(*tensor.Dense)
	if !ok || d.Dtype() != tensor.Float32 || d.Dims() != 2 || d.IsMasked() {
		return strided{}, false
	}
	s := strided{d.Float32s(), d.Shape()[0], d.Shape()[1], d.Strides()[0], d.Strides()[1]}
	whole := s.down == s.columns && s.right == 1 || s.right == s.rows && s.down == 1
	return s, whole && len(s.data) == s.rows*s.columns
}

// engine is a product of two matrices that are not packed beforehand.
type engine struct {
	w       matrix
	right   strided
	packed  buffer
	left    stridedSource
	columns func(worker, j int)
}

func (e *engine) init() { e.columns = e.packColumns }

func (e *engine) run(b *Backend, dst, left, right strided) {
	k := gemm.KernelFor(b.level, gemm.F32, right.columns)
	e.w = matrix{out: right.columns, in: right.rows, k: k, by: dense{k}, lines: k.Lines(right.rows)}
	e.w.memory = storage{data: e.packed.get(e.w.panels() * e.w.sizePanel())}
	e.right, e.left.strided = right, left
	b.pool.For(e.w.panels(), e.columns)
	b.product.target(dst.data, dst.down, backend.Epilogue{})
	b.product.run(&e.left, left.rows, &e.w)
	e.right, e.left.strided = strided{}, strided{}
}

// packColumns packs panel j of the right factor.
func (e *engine) packColumns(_, j int) {
	k, r := e.w.k, &e.right
	first := j * k.Columns
	k.PackB(e.w.panel(j), r.data[first*r.right:], r.rows, min(k.Columns, r.columns-first), r.down,
		r.right)
}

// stridedSource packs rows of a matrix or of a transposed one.
type stridedSource struct{ strided }

func (s *stridedSource) pack(m *matrix, a operand, w *worker, first, rows int) {
	if s.right == 1 {
		m.pack(a, s.data[first*s.down:], s.down, rows, w)
		return
	}
	x := w.row.get(rows * s.columns)
	for j := range s.columns {
		for i, v := range s.data[j*s.right+first:][:rows] {
			x[i*s.columns+j] = v
		}
	}
	m.pack(a, x, s.columns, rows, w)
}
