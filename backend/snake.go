package backend

import "gorgonia.org/tensor"

// Snaker is a Backend with the periodic activation of sound codecs (Ziyin et al. 2020, "Neural
// networks fail to learn periodic functions and how to fix it"), x + sin(alpha x)^2/(alpha + 1e-9)
// with an alpha for each channel.
type Snaker interface {
	Backend
	// Snake computes rows of x's channels: dst[i] = snake(x[from[i]]), zeros where from[i] is -1.
	// So a convolution's margins and the order of its rows cost nothing. dst and x are of any shape,
	// [*, channels]; alpha is [2, channels]: each alpha, then each 1/(alpha + 1e-9). dst must not
	// be x.
	Snake(dst, x *tensor.Dense, from []int32, alpha *tensor.Dense)
}

// CheckSnake checks the arguments of Snake.
func CheckSnake(dst, x *tensor.Dense, from []int32, alpha *tensor.Dense) {
	channels := alpha.DataSize() / 2
	if dst == x || dst.DataSize() < len(from)*channels {
		misuse("Snake", "dst is %v, need another than x, [>=%d, %d]", dst.Shape(), len(from), channels)
	}
	for i, r := range from {
		if r < -1 || (int(r)+1)*channels > x.DataSize() {
			misuse("Snake", "index %d is row %d of %v, %d channels", i, r, x.Shape(), channels)
		}
	}
}
