package vec

import "math"

// The plain Go kernels, which are also what the assembly is tested against. Functions of
// one variable are computed in float64.

// ofOne are the functions of one variable, by their number.
var ofOne = [...]func(float64) float64{
	ofExp:        math.Exp,
	ofGeluTanh:   geluTanh,
	ofGeluErf:    geluErf,
	ofSilu:       silu,
	ofSinSquared: sinSquared,
	ofRelu:       relu,
}

func apply(f function, dst, x []float32) {
	switch f {
	case ofAdd:
		for i, v := range x {
			dst[i] += v
		}
	case ofMultiply:
		for i, v := range x {
			dst[i] *= v
		}
	case ofMaximum:
		for i, v := range x {
			dst[i] = max(dst[i], v)
		}
	default:
		one := ofOne[f]
		for i, v := range x {
			dst[i] = float32(one(float64(v)))
		}
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func geluTanh(x float64) float64 {
	if math.IsInf(x, -1) {
		return 0
	}
	return x * sigmoid(1.5957691216057308*(x+0.044715*x*x*x))
}

func geluErf(x float64) float64 {
	if math.IsInf(x, -1) {
		return 0
	}
	return 0.5 * x * math.Erfc(-x/math.Sqrt2)
}

func silu(x float64) float64 {
	if math.IsInf(x, -1) {
		return 0
	}
	return x * sigmoid(x)
}

func sinSquared(x float64) float64 {
	s := math.Sin(x)
	return s * s
}

func relu(x float64) float64 { return max(x, 0) }

// lanes are the 16 virtual lanes of a sum.
type lanes [line]float32

// reduce returns the sum of the lanes, added in halves.
func (l *lanes) reduce() float32 {
	for n := line / 2; n > 0; n /= 2 {
		for i := range n {
			l[i] += l[i+n]
		}
	}
	return l[0]
}

func sum(x []float32) float32 {
	var l lanes
	for i, v := range x {
		l[i%line] += v
	}
	return l.reduce()
}

func sumSquares(x []float32, mean float32) float32 {
	var l lanes
	for i, v := range x {
		d := v - mean
		l[i%line] += float32(d * d)
	}
	return l.reduce()
}

func normalize(dst, x, scale, shift []float32, mean, inverse float32) {
	for i, v := range x {
		v = float32((v - mean) * inverse)
		if scale != nil {
			v *= scale[i]
		}
		if shift != nil {
			v = float32(v) + shift[i]
		}
		dst[i] = v
	}
}

func logits(x, bias []float32, scale float32) float32 {
	top := float32(math.Inf(-1))
	for i := range x {
		if bias != nil {
			x[i] += bias[i]
		}
		x[i] *= scale
		if x[i] > top {
			top = x[i]
		}
	}
	return top
}

// weight returns e = exp(d) and d = c*(x-top). Below -104, e is 0 in float32.
func weight(x, c, top float32) (e, d float32) {
	d = max((x-top)*c, -104)
	return float32(math.Exp(float64(d))), d
}

func sumExp(x []float32, c, top float32) float32 {
	var l lanes
	for i, v := range x {
		e, _ := weight(v, c, top)
		l[i%line] += e
	}
	return l.reduce()
}

func sumExps(x []float32, c, top float32) (float32, float32) {
	return sumExp(x, 1, top), sumExp(x, c, top)
}

func sumExpDot(x []float32, top float32) (float32, float32) {
	var s, t lanes
	for i, v := range x {
		e, d := weight(v, 1, top)
		s[i%line] += e
		t[i%line] += float32(e * d)
	}
	return s.reduce(), t.reduce()
}

func leaders(x []float32, top float32) (second float32, count, first int) {
	second = float32(math.Inf(-1))
	first = -1
	for i, v := range x {
		switch {
		case v == top:
			count++
			if first < 0 {
				first = i
			}
		case v > second:
			second = v
		}
	}
	return second, count, first
}

func weights(dst, x []float32, c, top float32) {
	for i, v := range x {
		dst[i], _ = weight(v, c, top)
	}
}

func modulate(x, scale, shift []float32) {
	for i, v := range x {
		x[i] = float32(v*(1+scale[i])) + shift[i]
	}
}

func affine(dst, x, scale, shift []float32, pixels int) {
	n := len(scale)
	for p := range pixels {
		for i, v := range x[p*n : (p+1)*n] {
			dst[p*n+i] = float32(v*scale[i]) + shift[i]
		}
	}
}

func mulAdd(dst, x, y []float32) {
	for i, v := range x {
		dst[i] += float32(v * y[i])
	}
}

func rotate(dst, x, cos, sin []float32) {
	half := len(cos)
	for i := range half {
		a := x[i]
		b := x[i+half]
		dst[i] = float32(a*cos[i]) - float32(b*sin[i])
		dst[i+half] = float32(a*sin[i]) + float32(b*cos[i])
	}
}

// columnSums sums the first channels of x, those of dst up to a line, over pixels that
// are stride floats apart.
func columnSums(dst, x []float32, stride, pixels int) {
	dst = dst[:min(line, len(dst))]
	clear(dst)
	for p := range pixels {
		for i := range dst {
			dst[i] += x[p*stride+i]
		}
	}
}

func columnSquares(dst, x, mean []float32, stride, pixels int) {
	dst = dst[:min(line, len(dst))]
	clear(dst)
	for p := range pixels {
		for i := range dst {
			d := x[p*stride+i] - mean[i]
			dst[i] += float32(d * d)
		}
	}
}

func scores(s, k, q []float32, keys, dim, lanes int) {
	for i := range keys {
		row := s[i*lanes : (i+1)*lanes]
		clear(row)
		for d := range dim {
			a := k[i*dim+d]
			b := q[d*lanes : (d+1)*lanes]
			for j := range row {
				row[j] += float32(a * b[j])
			}
		}
	}
}

func values(o, v, s, alpha []float32, keys, dim, lanes int) {
	for d := range dim {
		row := o[d*lanes : (d+1)*lanes]
		for j := range row {
			row[j] *= alpha[j]
		}
		for i := range keys {
			a := v[i*dim+d]
			b := s[i*lanes : (i+1)*lanes]
			for j := range row {
				row[j] += float32(a * b[j])
			}
		}
	}
}

func softmax(s, top, sum, alpha []float32, keys, lanes int) {
	for j := range lanes {
		m := top[j]
		for i := range keys {
			if v := s[i*lanes+j]; v > m {
				m = v
			}
		}
		alpha[j] = exp2(top[j] - m)
		top[j] = m
		sum[j] *= alpha[j]
		for i := range keys {
			e := exp2(s[i*lanes+j] - m)
			s[i*lanes+j] = e
			sum[j] += e
		}
	}
}

// exp2 returns 2^z, and 0 below -126.5, where float32 has denormals.
func exp2(z float32) float32 {
	if z < -126.5 {
		return 0
	}
	return float32(math.Exp2(float64(z)))
}

func transpose(dst, src []float32, scale *[8]float32, dstStride, srcStride, dstStep, srcStep,
	blocks int) {
	for b := range blocks {
		for i := range 8 {
			for j := range 8 {
				dst[b*dstStep+j*dstStride+i] = src[b*srcStep+i*srcStride+j] * scale[j]
			}
		}
	}
}
