package plain

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/bfloat16"
)

// matrix holds weights as float32, rounded to values of its precision.
type matrix struct {
	out, in   int
	precision backend.Precision
	w         []float32 // [out, in]
}

func (m *matrix) Out() int                     { return m.out }
func (m *matrix) In() int                      { return m.in }
func (m *matrix) Precision() backend.Precision { return m.precision }
func (m *matrix) Bytes() int                   { return 4 * len(m.w) }

// Pack rounds the weights to a precision: nothing, bfloat16, or 255 levels a channel.
func (d *Device) Pack(out, in int, precision backend.Precision,
	row backend.RowFunc) backend.Matrix {
	m := &matrix{out: out, in: in, precision: precision, w: make([]float32, out*in)}
	for i := range out {
		weights := m.w[i*in : (i+1)*in]
		row(i, weights)
		roundTo(weights, precision)
	}
	return m
}

// roundTo replaces x by the nearest values of a precision. Int8 has levels -127..127 times
// max|x|/127, for each row.
func roundTo(x []float32, precision backend.Precision) {
	switch precision {
	case backend.F32:
	case backend.Blocks:
		roundGroups(x)
	case backend.BF16:
		for i, v := range x {
			x[i] = bfloat16.Float32(bfloat16.Round(v))
		}
	case backend.Int8:
		var top float32
		for _, v := range x {
			top = max(top, float32(math.Abs(float64(v))))
		}
		if top == 0 {
			return
		}
		scale := top / 127
		inverse := 127 / top
		for i, v := range x {
			x[i] = float32(math.RoundToEven(float64(v*inverse))) * scale
		}
	default:
		panic(unknownValue("Pack", precision))
	}
}

// multiplyRow returns x W^T for one row x, which is rounded to W's precision first.
func multiplyRow(w backend.Matrix, x []float32) []float64 {
	m := w.(*matrix)
	x = append([]float32(nil), x...)
	roundTo(x, m.precision)
	y := make([]float64, m.out)
	for o := range y {
		for i, v := range m.w[o*m.in : (o+1)*m.in] {
			y[o] += float64(v) * float64(x[i])
		}
	}
	return y
}

// storeRow writes act(y + bias) * times to dst, or adds it; nil times is 1.
func storeRow(dst []float32, y []float64, times []float32, e backend.Epilogue) {
	for i, v := range y {
		v = applyActivation(v+valueOr(e.Bias, i, 0), e.Act)
		if times != nil {
			v *= float64(times[i])
		}
		if e.Add {
			v += float64(dst[i])
		}
		dst[i] = float32(v)
	}
}

// Linear computes dst = epilogue(x W^T) by rows.
func (d *Device) Linear(dst, x *tensor.Dense, rows int, w backend.Matrix, e backend.Epilogue) {
	backend.CheckLinear(dst, x, rows, w, e)
	for i := range rows {
		var times []float32
		if e.Times != nil {
			times = row(e.Times, i)
		}
		storeRow(row(dst, i), multiplyRow(w, row(x, i)), times, e)
	}
}
