// Package vec has the vector kernels beside the matrix products: functions of one variable,
// reductions over rows, layer norms, rotary embeddings and the tiles of attention.
//
// AVX2, AVX-512 and NEON results have the same bits: in each lane all do the same operations in the
// same order. A sum over a row has 16 virtual lanes, which are then added in halves: lane i to lane
// i+8, then to i+4, i+2 and i+1. A last part of a row that does not fill 16 lanes is summed apart.
// Results do not depend on alignment.
package vec

import (
	"math"

	"unmask/internal/simd"
)

// Ops are the kernels of an instruction set, vec.Ops(level.ISA).
type Ops simd.ISA

const line = 16 // virtual lanes

// padded is the last part of a row, filled up to a line. The assembly works on whole lines only.
type padded [line]float32

// fill sets p to x and padding, a value that does not change the result, and returns all of it.
func (p *padded) fill(x []float32, padding float32) []float32 {
	for i := copy(p[:], x); i < line; i++ {
		p[i] = padding
	}
	return p[:]
}

// whole returns how many of n elements fill whole lines: kernels compute these, and the others one
// padded line.
func whole(n int) int { return n &^ (line - 1) }

// function is a function of each element: of x alone, or of dst and x.
type function int

const (
	ofExp function = iota
	ofGeluTanh
	ofGeluErf
	ofSilu
	ofSinSquared
	ofRelu
	ofAdd
	ofMultiply
	ofMaximum
)

// each computes dst = f(x), or dst = f(dst, x) from ofAdd on.
func (o Ops) each(f function, dst, x []float32) {
	if f >= ofAdd {
		x = x[:len(dst)]
	}
	n := whole(len(x))
	o.apply(f, dst[:n], x[:n])
	if n < len(x) {
		var p, a padded
		o.apply(f, p.fill(dst[n:len(x)], 0), a.fill(x[n:], 0))
		copy(dst[n:len(x)], p[:])
	}
}

// Exp computes dst = exp(x) within 2 units in the last place. dst may be x, here and below.
func (o Ops) Exp(dst, x []float32) { o.each(ofExp, dst, x) }

// GELUTanh computes dst = 0.5x(1+tanh(sqrt(2/pi)(x+0.044715x^3))) within 4 units in the last
// place, as do GELUErf and SiLU.
func (o Ops) GELUTanh(dst, x []float32) { o.each(ofGeluTanh, dst, x) }

// GELUErf computes dst = 0.5x(1+erf(x/sqrt 2)).
func (o Ops) GELUErf(dst, x []float32) { o.each(ofGeluErf, dst, x) }

// SiLU computes dst = x*sigmoid(x).
func (o Ops) SiLU(dst, x []float32) { o.each(ofSilu, dst, x) }

// SinSquared computes dst = sin(x)^2, for x up to 1e7.
func (o Ops) SinSquared(dst, x []float32) { o.each(ofSinSquared, dst, x) }

// ReLU computes dst = max(x, 0); NaN stays NaN.
func (o Ops) ReLU(dst, x []float32) { o.each(ofRelu, dst, x) }

// Sum returns the sum of x.
func (o Ops) Sum(x []float32) float32 {
	n := whole(len(x))
	s := o.sum(x[:n])
	if n < len(x) {
		var p padded
		s += o.sum(p.fill(x[n:], 0))
	}
	return s
}

// SumSquares returns the sum of (x-mean)^2.
func (o Ops) SumSquares(x []float32, mean float32) float32 {
	n := whole(len(x))
	s := o.sumSquares(x[:n], mean)
	if n < len(x) {
		var p padded
		s += o.sumSquares(p.fill(x[n:], mean), mean)
	}
	return s
}

var (
	ones  = padded{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	zeros padded
)

// LayerNorm computes dst = (x-mean)/sqrt(variance+eps)*scale+shift in two passes. Nil scale
// is 1, nil shift 0.
func (o Ops) LayerNorm(dst, x, scale, shift []float32, eps float32) {
	width := float32(len(x))
	mean := o.Sum(x) / width
	variance := o.SumSquares(x, mean) / width
	inverse := float32(1 / math.Sqrt(float64(variance)+float64(eps)))
	o.normalized(dst, x, scale, shift, mean, inverse)
}

// normalized computes dst = (x-mean)*inverse*scale + shift.
func (o Ops) normalized(dst, x, scale, shift []float32, mean, inverse float32) {
	n := whole(len(x))
	o.normalize(dst[:n], x[:n], scale, shift, mean, inverse)
	if n < len(x) {
		var p, a, b padded
		if scale != nil {
			scale = a.fill(scale[n:], 0)
		}
		if shift != nil {
			shift = b.fill(shift[n:], 0)
		}
		o.normalize(p[:], p.fill(x[n:], 0), scale, shift, mean, inverse)
		copy(dst[n:len(x)], p[:])
	}
}

// RMSNorm computes dst = x/sqrt(mean(x^2)+eps)*scale. Nil scale is 1.
func (o Ops) RMSNorm(dst, x, scale []float32, eps float32) {
	mean := float64(o.SumSquares(x, 0) / float32(len(x)))
	inverse := float32(1 / math.Sqrt(mean+float64(eps)))
	o.normalized(dst, x, scale, nil, 0, inverse)
}

// Logits computes x = (x+bias)*scale in place, nil bias 0, and returns the maximum. It may miss
// NaN.
func (o Ops) Logits(x, bias []float32, scale float32) float32 {
	n := whole(len(x))
	top := o.logits(x[:n], bias, scale)
	if n < len(x) {
		var p, b padded
		if bias != nil {
			bias = b.fill(bias[n:len(x)], bias[n])
		}
		last := o.logits(p.fill(x[n:], x[n]), bias, scale)
		copy(x[n:], p[:])
		if last > top {
			top = last
		}
	}
	return top
}

// SumExp returns the sum of exp(c*(x-top)), for c > 0 and a top that is at least every x.
func (o Ops) SumExp(x []float32, c, top float32) float32 {
	n := whole(len(x))
	s := o.sumExp(x[:n], c, top)
	if n < len(x) {
		var p padded
		s += o.sumExp(p.fill(x[n:], float32(math.Inf(-1))), c, top)
	}
	return s
}

// SumExps returns SumExp(x, 1, top) and SumExp(x, c, top), in one pass.
func (o Ops) SumExps(x []float32, c, top float32) (sum, powers float32) {
	n := whole(len(x))
	sum, powers = o.sumExps(x[:n], c, top)
	if n < len(x) {
		var p padded
		s, t := o.sumExps(p.fill(x[n:], float32(math.Inf(-1))), c, top)
		sum += s
		powers += t
	}
	return sum, powers
}

// SumExpDot returns the sums of e = exp(x-top) and of e*(x-top).
func (o Ops) SumExpDot(x []float32, top float32) (sum, dot float32) {
	n := whole(len(x))
	sum, dot = o.sumExpDot(x[:n], top)
	if n < len(x) {
		var p padded
		s, t := o.sumExpDot(p.fill(x[n:], float32(math.Inf(-1))), top)
		sum += s
		dot += t
	}
	return sum, dot
}

// Leaders returns the index of the first element of x that equals top, the maximum, and the largest
// of the others: top again if several elements equal it. The results are undefined if x has NaN.
func (o Ops) Leaders(x []float32, top float32) (second float32, first int) {
	n := whole(len(x))
	second, count, first := o.leaders(x[:n], top)
	if n < len(x) {
		var p padded
		s, c, f := o.leaders(p.fill(x[n:], float32(math.Inf(-1))), top)
		if first < 0 {
			first = n + f
		}
		second = max(second, s)
		count += c
	}
	if count > 1 {
		second = top
	}
	return second, first
}

// Weights computes dst = exp(c*(x-top)).
func (o Ops) Weights(dst, x []float32, c, top float32) {
	n := whole(len(x))
	o.weights(dst[:n], x[:n], c, top)
	if n < len(x) {
		var p padded
		o.weights(p[:], p.fill(x[n:], 0), c, top)
		copy(dst[n:len(x)], p[:])
	}
}

// Modulate computes x = x*(1+scale)+shift.
func (o Ops) Modulate(x, scale, shift []float32) {
	n := whole(len(x))
	o.modulate(x[:n], scale[:n], shift[:n])
	if n < len(x) {
		var p, a, b padded
		o.modulate(p.fill(x[n:], 0), a.fill(scale[n:], 0), b.fill(shift[n:], 0))
		copy(x[n:], p[:])
	}
}

// Affine computes dst = x*scale + shift, each operation rounded, for pixels of len(scale) channels.
func (o Ops) Affine(dst, x, scale, shift []float32) {
	n := len(scale)
	if n == 0 || len(x) < n {
		return
	}
	_ = shift[n-1] // the assembly checks no bounds
	_ = dst[len(x)-1]
	pixels := len(x) / n
	if n%line == 0 {
		o.affine(dst, x, scale, shift, pixels)
	} else {
		affine(dst, x, scale, shift, pixels)
	}
}

// MulAdd computes dst += x*y, rounded once.
func (o Ops) MulAdd(dst, x, y []float32) {
	n := whole(len(dst))
	o.mulAdd(dst[:n], x[:n], y[:n])
	if n < len(dst) {
		var p, a, b padded
		o.mulAdd(p.fill(dst[n:], 0), a.fill(x[n:], 0), b.fill(y[n:], 0))
		copy(dst[n:], p[:])
	}
}

// AddScaled computes dst += x*scale, rounded once.
func (o Ops) AddScaled(dst, x []float32, scale float32) {
	const chunk = 16 * line
	var y [chunk]float32
	for i := range min(chunk, len(dst)) {
		y[i] = scale
	}
	for i := 0; i < len(dst); i += chunk {
		n := min(chunk, len(dst)-i)
		o.MulAdd(dst[i:i+n], x[i:i+n], y[:n])
	}
}

// Add computes dst += x.
func (o Ops) Add(dst, x []float32) { o.each(ofAdd, dst, x) }

// Multiply computes dst *= x.
func (o Ops) Multiply(dst, x []float32) { o.each(ofMultiply, dst, x) }

// Maximum computes dst = max(dst, x).
func (o Ops) Maximum(dst, x []float32) { o.each(ofMaximum, dst, x) }

// Rotate turns each pair (x[i], x[i+n/2]) by an angle, given its cosine and sine.
func (o Ops) Rotate(dst, x, cos, sin []float32) {
	half := len(x) / 2
	if half%line == 0 || half%8 == 0 && o != Ops(simd.AVX512) {
		o.rotate(dst[:2*half], x[:2*half], cos[:half], sin[:half])
		return
	}
	for i := 0; i < half; i += line {
		var in, out [2 * line]float32
		var c, s padded
		n := min(line, half-i)
		copy(in[:line], x[i:i+n])
		copy(in[line:], x[half+i:half+i+n])
		o.rotate(out[:], in[:], c.fill(cos[i:i+n], 0), s.fill(sin[i:i+n], 0))
		copy(dst[i:i+n], out[:line])
		copy(dst[half+i:half+i+n], out[line:])
	}
}

// ColumnSums sums each channel of x [pixels, channels].
func (o Ops) ColumnSums(dst, x []float32) {
	o.eachColumns(dst, x, nil)
}

// ColumnSquares sums (x-mean)^2 of each channel.
func (o Ops) ColumnSquares(dst, x, mean []float32) {
	o.eachColumns(dst, x, mean)
}

// eachColumns sums the columns of x, or their squared differences from mean if it is not nil.
// Channels beyond the last whole line are summed in plain Go: each is a sum of its own, so its bits
// are the same.
func (o Ops) eachColumns(dst, x, mean []float32) {
	channels := len(dst)
	pixels := len(x) / channels
	for c := 0; c+line <= channels && pixels > 0; c += line {
		if mean == nil {
			o.columnSums(dst[c:], x[c:], channels, pixels)
		} else {
			o.columnSquares(dst[c:], x[c:], mean[c:], channels, pixels)
		}
	}
	if c := whole(channels); c < channels {
		if mean == nil {
			columnSums(dst[c:], x[c:], channels, pixels)
		} else {
			columnSquares(dst[c:], x[c:], mean[c:], channels, pixels)
		}
	}
}
