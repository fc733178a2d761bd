package nn

import (
	"math"
	"slices"
)

// HostLinear is a small linear layer that runs on the host, with sums in float64. It is for layers
// of a few rows, such as those of a time: a call to a device would take longer than the product,
// and here every device gets the same values.
type HostLinear struct {
	w []float32 // [out, in]
	b []float32 // [out], nil for none
}

// HostLinear reads the weights of a layer.
func (l *Loader) HostLinear(n *Linear) HostLinear {
	return HostLinear{w: l.Floats(&n.Weight), b: l.Floats(&n.Bias)}
}

// Apply returns x W^T + b [out] of a row x [in].
func (h HostLinear) Apply(x []float32) []float32 {
	y := make([]float32, len(h.w)/len(x))
	for i := range y {
		sum := 0.0
		if h.b != nil {
			sum = float64(h.b[i])
		}
		for j, w := range h.w[i*len(x) : (i+1)*len(x)] {
			sum += float64(w) * float64(x[j])
		}
		y[i] = float32(sum)
	}
	return y
}

// SiLU replaces each x by x*sigmoid(x) and returns x.
func SiLU(x []float32) []float32 {
	for i, v := range x {
		x[i] = float32(float64(v) / (1 + math.Exp(-float64(v))))
	}
	return x
}

// Softmax replaces each row of x, `width` logits, by the softmax of scale times these.
func Softmax(x []float32, width int, scale float64) {
	for row := range slices.Chunk(x, width) {
		top := slices.Max(row)
		sum := 0.0
		for i, v := range row {
			p := math.Exp(float64(v-top) * scale)
			row[i] = float32(p)
			sum += p
		}
		for i, p := range row {
			row[i] = float32(float64(p) / sum)
		}
	}
}

// Probabilities returns the softmax of logits divided by a temperature. The largest logit is taken
// from all of them first, so that no exponential overflows, however large logits are.
func Probabilities[T float32 | float64](logits []T, temperature float64) []float64 {
	top := float64(slices.Max(logits))
	sum := 0.0
	p := make([]float64, len(logits))
	for i, l := range logits {
		p[i] = math.Exp((float64(l) - top) / temperature)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// AddTo adds b to the front of a, which is at least as long.
func AddTo(a, b []float32) {
	for i, v := range b {
		a[i] += v
	}
}

// MoveTapsFirst turns the weights [in, taps] of one output of a convolution to [taps, in], the
// order in which backends read the windows of an image.
func MoveTapsFirst(dst, w []float32, in, taps int) {
	for j := range in {
		for t := range taps {
			dst[t*in+j] = w[j*taps+t]
		}
	}
}

// RowRange returns the n numbers first, first+1, ..., for kernels that take lists of rows.
func RowRange(first, n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(first + i)
	}
	return rows
}
