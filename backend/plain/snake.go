package plain

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// Snake computes dst[i] = snake(x[from[i]]), zeros where from[i] is -1.
func (d *Device) Snake(dst, x *tensor.Dense, from []int32, alpha *tensor.Dense) {
	backend.CheckSnake(dst, x, from, alpha)
	n := alpha.DataSize() / 2
	for i, r := range from {
		for c := range n {
			y := 0.0
			if r >= 0 {
				v := float64(x.Float32s()[int(r)*n+c])
				s := math.Sin(valueOr(alpha, c, 0) * v)
				y = v + s*s*valueOr(alpha, n+c, 0)
			}
			dst.Float32s()[i*n+c] = float32(y)
		}
	}
}
