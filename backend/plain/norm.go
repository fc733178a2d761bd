package plain

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// LayerNorm computes dst = (x-mean)/sqrt(var+eps)*scale+shift by rows.
func (d *Device) LayerNorm(dst, x *tensor.Dense, rows int, n backend.Norm) {
	backend.CheckLayerNorm(dst, x, rows, n)
	for i := range rows {
		y := row(dst, i)
		x := row(x, i)
		var m moments
		for _, v := range x {
			m.add(v)
		}
		mean := m.mean()
		inverse := m.inverse(n.Eps)
		for j, v := range x {
			y[j] = float32((float64(v)-mean)*inverse*valueOr(n.Scale, j, 1) + valueOr(n.Shift, j, 0))
		}
	}
}

// RMSNorm computes dst = x/sqrt(mean(x^2)+eps)*scale by rows.
func (d *Device) RMSNorm(dst, x *tensor.Dense, rows int, n backend.Norm) {
	backend.CheckRMSNorm(dst, x, rows, n)
	for i := range rows {
		normaliseRow(row(dst, i), row(x, i), n)
	}
}

// NormHeads is RMSNorm of each query head, with q, and each key head, with k, in place.
func (d *Device) NormHeads(qkv *tensor.Dense, rows int, h backend.Heads, q, k backend.Norm) {
	backend.CheckNormHeads(qkv, rows, h, q, k)
	for i := range rows {
		x := row(qkv, i)
		for j := range h.Heads + h.KVHeads() {
			head := x[j*h.HeadDim:][:h.HeadDim]
			norm := q
			if j >= h.Heads {
				norm = k
			}
			normaliseRow(head, head, norm)
		}
	}
}

// normaliseRow is RMSNorm of one row.
func normaliseRow(dst, x []float32, n backend.Norm) {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	inverse := 1 / math.Sqrt(sum/float64(len(x))+float64(n.Eps))
	for i, v := range x {
		dst[i] = float32(float64(v) * inverse * valueOr(n.Scale, i, 1))
	}
}

// GroupNorm writes, for each image and channel, the scale and shift that normalise x [batch,
// pixels, channels] over the pixels and channels of a group.
func (d *Device) GroupNorm(scale, shift, x *tensor.Dense, batch, pixels, channels, groups int,
	n backend.Norm) {
	backend.CheckGroupNorm(scale, shift, x, batch, pixels, channels, groups, n)
	size := channels / groups // channels of a group
	data := x.Float32s()
	for b := range batch {
		for g := range groups {
			var m moments
			for p := range pixels {
				for c := g * size; c < (g+1)*size; c++ {
					m.add(data[(b*pixels+p)*channels+c])
				}
			}
			mean := m.mean()
			inverse := m.inverse(n.Eps)
			for c := g * size; c < (g+1)*size; c++ {
				s := inverse * valueOr(n.Scale, c, 1)
				scale.Float32s()[b*channels+c] = float32(s)
				shift.Float32s()[b*channels+c] = float32(valueOr(n.Shift, c, 0) - mean*s)
			}
		}
	}
}

// moments accumulates mean and variance (Welford's recurrence, which does not lose digits where the
// mean is far larger than the differences from it).
type moments struct {
	n       float64
	average float64
	squares float64 // sum of squared differences from the mean
}

// add counts a number (Welford 1962, "Note on a method for calculating corrected sums of squares
// and products"), which loses no digits where the mean is far from 0.
func (m *moments) add(v float32) {
	m.n++
	d := float64(v) - m.average
	m.average += d / m.n
	m.squares += d * (float64(v) - m.average)
}

func (m *moments) mean() float64 { return m.average }

// inverse returns 1/sqrt(variance + eps), with the population's variance.
func (m *moments) inverse(eps float32) float64 { return 1 / math.Sqrt(m.squares/m.n+float64(eps)) }

// Activate applies f to rows of x in place.
func (d *Device) Activate(x *tensor.Dense, rows int, f backend.Activation) {
	backend.CheckRowCount("Activate", x, rows)
	for i := range rows {
		x := row(x, i)
		for j, v := range x {
			x[j] = float32(applyActivation(float64(v), f))
		}
	}
}

// applyActivation returns f(x). At -Inf it is the limit 0 for all but Identity.
func applyActivation(x float64, f backend.Activation) float64 {
	switch {
	case f == backend.Identity:
		return x
	case f == backend.ReLU || math.IsInf(x, -1):
		return max(x, 0)
	case f == backend.GELUTanh: // (1+tanh u)/2 = sigmoid(2u), which is exact for small results
		return x * sigmoid(2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))
	case f == backend.GELUErf:
		return 0.5 * x * math.Erfc(-x/math.Sqrt2)
	case f == backend.SiLU:
		return x * sigmoid(x)
	}
	panic(unknownValue("Activate", f))
}

// sigmoid returns the logistic function of x.
func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Modulate computes x = x*(1+scale[seq]) + shift[seq].
func (d *Device) Modulate(x, scale, shift *tensor.Dense, segs []backend.Segment) {
	backend.CheckSegmentRows("Modulate", x, scale, segs)
	backend.CheckSegmentRows("Modulate", x, shift, segs)
	for _, s := range segs {
		a := row(scale, s.Seq)
		b := row(shift, s.Seq)
		for i := range s.Rows {
			x := row(x, s.Row+i)
			for j, v := range x {
				x[j] = float32(float64(v)*(1+float64(a[j])) + float64(b[j]))
			}
		}
	}
}

// GateAdd computes dst += gate[seq]*x.
func (d *Device) GateAdd(dst, x, gate *tensor.Dense, segs []backend.Segment) {
	backend.CheckSegmentRows("GateAdd", dst, gate, segs)
	backend.CheckSegmentRows("GateAdd", x, gate, segs)
	for _, s := range segs {
		g := row(gate, s.Seq)
		for i := range s.Rows {
			y := row(dst, s.Row+i)
			x := row(x, s.Row+i)
			for j, v := range x {
				y[j] = float32(float64(y[j]) + float64(g[j])*float64(v))
			}
		}
	}
}
