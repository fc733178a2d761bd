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
	left, leftOK := viewMatrix(x)
	right, rightOK := viewMatrix(y)
	dst, dstOK := viewMatrix(prealloc)
	if !leftOK || !rightOK || !dstOK || dst.columnStride != 1 {
		return b.StdEng.MatMul(x, y, prealloc)
	}
	if left.columns != right.rows || dst.rows != left.rows || dst.columns != right.columns {
		return fmt.Errorf("cpu: MatMul: %v times %v into %v", x.Shape(), y.Shape(), prealloc.Shape())
	}
	b.mu.Lock()
	defer b.finishCall()
	b.matMul.multiply(b, dst, left, right)
	runtime.KeepAlive(x)
	runtime.KeepAlive(y)
	runtime.KeepAlive(prealloc)
	return nil
}

// strided is a matrix in memory: element (i, j) is data[i*rowStride+j*columnStride].
type strided struct {
	data         []float32
	rows         int
	columns      int
	rowStride    int
	columnStride int
}

// viewMatrix returns the memory of a float32 matrix that is contiguous, or its transpose.
func viewMatrix(t tensor.Tensor) (strided, bool) {
	d, ok := t.(*tensor.Dense)
	if !ok || d.Dtype() != tensor.Float32 || d.Dims() != 2 || d.IsMasked() {
		return strided{}, false
	}
	s := strided{
		data:         d.Float32s(),
		rows:         d.Shape()[0],
		columns:      d.Shape()[1],
		rowStride:    d.Strides()[0],
		columnStride: d.Strides()[1],
	}
	isContiguous := s.rowStride == s.columns && s.columnStride == 1
	isTransposed := s.columnStride == s.rows && s.rowStride == 1
	return s, (isContiguous || isTransposed) && len(s.data) == s.rows*s.columns
}

// matMulJob is a product of two matrices that are not packed beforehand.
type matMulJob struct {
	left  stridedSource
	right strided

	// packed is the right factor in panels, like weights, and memory where they are.
	packed matrix
	memory buffer

	// packPanelFunc is packPanel, made once because a method value allocates.
	packPanelFunc func(worker, j int)
}

func (e *matMulJob) init() { e.packPanelFunc = e.packPanel }

// multiply computes dst = left right.
func (e *matMulJob) multiply(b *Backend, dst, left, right strided) {
	k := gemm.KernelFor(b.level, gemm.F32, right.columns)
	e.packed = matrix{
		out:        right.columns,
		in:         right.rows,
		kernel:     k,
		multiplier: dense{k},
		lines:      k.Lines(right.rows),
	}
	e.packed.memory = storage{data: e.memory.get(e.packed.panelCount() * e.packed.panelWords())}
	e.right = right
	e.left.strided = left
	b.pool.For(e.packed.panelCount(), e.packPanelFunc)
	b.product.setTarget(dst.data, dst.rowStride, backend.Epilogue{})
	b.product.run(&e.left, left.rows, &e.packed)

	e.right = strided{} // the job must not keep tensors alive
	e.left.strided = strided{}
}

// packPanel packs panel j of the right factor.
func (e *matMulJob) packPanel(_, j int) {
	k := e.packed.kernel
	r := &e.right
	first := j * k.Columns
	k.PackB(e.packed.panel(j), r.data[first*r.columnStride:], r.rows, min(k.Columns, r.columns-first),
		r.rowStride, r.columnStride)
}

// stridedSource packs rows of a matrix or of a transposed one.
type stridedSource struct{ strided }

// pack packs rows first..first+rows-1. A transposed matrix is turned first, because the kernels
// pack rows whose values follow each other.
func (s *stridedSource) pack(m *matrix, a operand, w *worker, first, rows int) {
	if s.columnStride == 1 {
		m.pack(a, s.data[first*s.rowStride:], s.rowStride, rows, w)
		return
	}
	x := w.row.get(rows * s.columns)
	for j := range s.columns {
		for i, v := range s.data[j*s.columnStride+first:][:rows] {
			x[i*s.columns+j] = v
		}
	}
	m.pack(a, x, s.columns, rows, w)
}
