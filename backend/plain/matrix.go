package plain

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/bfloat16"
)

// matrix holds weights as float32, rounded to values of its precision.
type matrix struct {
	out, in int
	as      backend.Precision
	w       []float32 // [out, in]
}

func (m *matrix) Out() int                     { return m.out }
func (m *matrix) In() int                      { return m.in }
func (m *matrix) Precision() backend.Precision { return m.as }
func (m *matrix) Bytes() int                   { return 4 * len(m.w) }

// Pack rounds the weights to a precision: nothing, bfloat16, or 255 levels a channel.
func (d *Device) Pack(out, in int, as backend.Precision, row backend.RowFunc) backend.Matrix {
	m := &matrix{out: out, in: in, as: as, w: make([]float32, out*in)}
	for i := range out {
		r := m.w[i*in : (i+1)*in]
		row(i, r)
		round(r, as)
	}
	return m
}

// round replaces x by the nearest values of a precision. Int8 has levels -127..127 times
// max|x|/127, for each row.
func round(x []float32, as backend.Precision) {
	switch as {
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
		scale, inverse := top/127, 127/top
		for i, v := range x {
			x[i] = float32(math.RoundToEven(float64(v*inverse))) * scale
		}
	default:
		panic(unknown("Pack", as))
	}
}

// product returns x W^T for one row x, which is rounded to W's precision first.
func product(w backend.Matrix, x []float32) []float64 {
	m := w.(*matrix)
	x = append([]float32(nil), x...)
	round(x, m.as)
	y := make([]float64, m.out)
	for o := range y {
		for i, v := range m.w[o*m.in : (o+1)*m.in] {
			y[o] += float64(v) * float64(x[i])
		}
	}
	return y
}

// store writes act(y + bias) * times to dst, or adds it; nil times is 1.
func store(dst []float32, y []float64, times []float32, e backend.Epilogue) {
	for i, v := range y {
		v = activate(v+at(e.Bias, i, 0), e.Act)
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
		store(row(dst, i), product(w, row(x, i)), times, e)
	}
}
