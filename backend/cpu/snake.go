package cpu

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// Snake computes dst[i] = snake(x[from[i]]), zeros where from[i] is -1.
func (v *vectors) Snake(dst, x *tensor.Dense, from []int32, alpha *tensor.Dense) {
	backend.CheckSnake(dst, x, from, alpha)
	if len(from) == 0 {
		return
	}
	j := v.takeRows()
	j.dst, j.x, j.a, j.from, j.width, j.kernel = data(dst), data(x), data(alpha), from,
		alpha.DataSize(), snake
	v.run(j, len(from))
}

func snake(j *rowJob, row, _ int) {
	dst := j.row(j.dst, row)
	if j.from[row] < 0 {
		clear(dst)
		return
	}
	a := j.a[:len(dst)]
	for i, v := range j.row(j.x, int(j.from[row]))[:len(dst)] {
		dst[i] = v + float32(sinSquared(float64(a[i])*float64(v))/(float64(a[i])+backend.SnakeEps))
	}
}

// sinSquared returns sin(x)^2 to 3e-9, from its Taylor series within half a period around 0. The
// conversions keep a compiler from fusing, so that all processors compute the same bits.
func sinSquared(x float64) float64 {
	x -= float64(math.RoundToEven(x*(1/math.Pi)) * math.Pi)
	s := float64(x * x)
	y := float64(s*(-1<<19/2432902008176640000.0)) + 1<<17/6402373705728000.0
	y = float64(y*s) - 1<<15/20922789888000.0
	y = float64(y*s) + 1<<13/87178291200.0
	y = float64(y*s) - 1<<11/479001600.0
	y = float64(y*s) + 1<<9/3628800.0
	y = float64(y*s) - 1<<7/40320.0
	y = float64(y*s) + 1<<5/720.0
	y = float64(y*s) - 1<<3/24.0
	y = float64(y*s) + 1
	return y * s
}
