//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"

	"gorgonia.org/tensor"
)

var matMulKernel = register("unmask_matmul")

// MatMul computes prealloc = x y for gorgonia: float32 matrices of this device, transposed or not.
func (b *Backend) MatMul(x, y, prealloc tensor.Tensor) error {
	left, err := b.view(x)
	if err != nil {
		return err
	}
	right, err := b.view(y)
	if err != nil {
		return err
	}
	dst, err := b.view(prealloc)
	if err != nil {
		return err
	}
	if left.columns != right.rows || dst.rows != left.rows || dst.columns != right.columns ||
		dst.right != 1 {
		return fmt.Errorf("cuda: MatMul: %v times %v into %v", x.Shape(), y.Shape(), prealloc.Shape())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	blocks := (dst.rows + 63) / 64 * ((dst.columns + 63) / 64)
	b.begin(matMulKernel, grid{x: blocks}, 128, 17408).
		pointer(dst.at).pointer(left.at).pointer(right.at).int(dst.rows).int(left.columns).
		int(dst.columns).
		int(left.down).int(left.right).int(right.down).int(right.right).end()
	keep(x, y, prealloc)
	return nil
}

// strided is a matrix in the device's memory: number (i, j) is at[i*down+j*right].
type strided struct {
	at            devicePtr
	rows, columns int
	down, right   int
}

// view returns the memory of a float32 matrix that is contiguous, or its transpose.
func (b *Backend) view(t tensor.Tensor) (strided, error) {
	d, ok := t.(*tensor.Dense)
	if !ok || d.Dtype() != tensor.Float32 || d.Dims() != 2 || d.IsMasked() ||
		d.Engine() != tensor.Engine(b) {
		return strided{}, fmt.Errorf("cuda: MatMul: %v %v, want float32 matrices of this device",
			t.Dtype(), t.Shape())
	}
	s := strided{b.address(d), d.Shape()[0], d.Shape()[1], d.Strides()[0], d.Strides()[1]}
	if s.down == s.columns && s.right == 1 || s.right == s.rows && s.down == 1 {
		return s, nil
	}
	return s, fmt.Errorf("cuda: MatMul: %v with strides %v, want contiguous matrices and their "+
		"transposes", d.Shape(), d.Strides())
}
