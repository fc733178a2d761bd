//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"

	"gorgonia.org/tensor"
)

var matMulKernel = register("unmask_matmul")

// MatMul computes prealloc = x y for gorgonia: float32 matrices of this device, transposed or not.
func (b *Backend) MatMul(x, y, prealloc tensor.Tensor) error {
	left, err := b.viewMatrix(x)
	if err != nil {
		return err
	}
	right, err := b.viewMatrix(y)
	if err != nil {
		return err
	}
	dst, err := b.viewMatrix(prealloc)
	if err != nil {
		return err
	}
	if left.columns != right.rows || dst.rows != left.rows || dst.columns != right.columns ||
		dst.columnStride != 1 {
		return fmt.Errorf("cuda: MatMul: %v times %v into %v", x.Shape(), y.Shape(), prealloc.Shape())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	const tile = 64 // rows and columns of a block
	blocks := ceilDiv(dst.rows, tile) * ceilDiv(dst.columns, tile)
	b.begin(matMulKernel, grid{x: blocks}, 128, 17408).
		pointer(dst.address).pointer(left.address).pointer(right.address).
		int(dst.rows).int(left.columns).int(dst.columns).
		int(left.rowStride).int(left.columnStride).int(right.rowStride).int(right.columnStride).end()
	keepAlive(x, y, prealloc)
	return nil
}

// strided is a float32 matrix in the device's memory. Element (i, j) is number
// i*rowStride + j*columnStride from address on.
type strided struct {
	address      devicePtr
	rows         int
	columns      int
	rowStride    int
	columnStride int
}

// viewMatrix returns the memory of a float32 matrix that is contiguous, or its transpose.
func (b *Backend) viewMatrix(t tensor.Tensor) (strided, error) {
	d, ok := t.(*tensor.Dense)
	if !ok || d.Dtype() != tensor.Float32 || d.Dims() != 2 || d.IsMasked() ||
		d.Engine() != tensor.Engine(b) {
		return strided{}, fmt.Errorf("cuda: MatMul: %v %v, want float32 matrices of this device",
			t.Dtype(), t.Shape())
	}
	s := strided{
		address:      b.addressOf(d),
		rows:         d.Shape()[0],
		columns:      d.Shape()[1],
		rowStride:    d.Strides()[0],
		columnStride: d.Strides()[1],
	}
	isContiguous := s.rowStride == s.columns && s.columnStride == 1
	isTransposed := s.columnStride == s.rows && s.rowStride == 1
	if isContiguous || isTransposed {
		return s, nil
	}
	return s, fmt.Errorf("cuda: MatMul: %v with strides %v, want contiguous matrices and their "+
		"transposes", d.Shape(), d.Strides())
}
