package cpu

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

// Snake computes dst[i] = snake(x[from[i]]), zeros where from[i] is -1.
func (v *vectors) Snake(dst, x *tensor.Dense, from []int32, alpha *tensor.Dense) {
	backend.CheckSnake(dst, x, from, alpha)
	if len(from) == 0 {
		return
	}
	n := alpha.DataSize() / 2
	v.run(len(from), rowCall{kernel: snake, dst: data(dst), x: data(x), a: data(alpha)[:n],
		b: data(alpha)[n:], from: from, width: n})
}

func snake(j *rowJob, row, _ int) {
	dst := j.row(j.dst, row)
	if j.from[row] < 0 {
		clear(dst)
		return
	}
	x := j.row(j.x, int(j.from[row]))
	copy(dst, x)
	j.ops.Multiply(dst, j.a)
	j.ops.SinSquared(dst, dst)
	j.ops.Multiply(dst, j.b)
	j.ops.Add(dst, x)
}
