package plain

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// Snake computes dst[i] = snake(x[from[i]]), zeros where from[i] is -1.
func (d *Device) Snake(dst, x *tensor.Dense, from []int32, alpha *tensor.Dense) {
	backend.CheckSnake(dst, x, from, alpha)
	n := alpha.DataSize()
	for i, r := range from {
		for c := range n {
			y := 0.0
			if r >= 0 {
				v, a := float64(x.Float32s()[int(r)*n+c]), at(alpha, c, 0)
				s := math.Sin(a * v)
				y = v + s*s/(a+backend.SnakeEps)
			}
			dst.Float32s()[i*n+c] = float32(y)
		}
	}
}
