package nn

import (
	"unmask/backend"
	"unmask/weights"
)

// Matrices packs parameters [out, in...] with the same input as one matrix with their outputs in
// order. If all are in block formats that the device can multiply, they stay in these, whatever the
// loader's precision; a backend.BlockDecoder receives its own format instead of float32.
func (l *Loader) Matrices(params ...*weights.Param) backend.Matrix {
	rows := make([]int, len(params))
	for i, p := range params {
		rows[i] = p.Shape[0]
	}
	return l.packMatrices(params, rows)
}

// packMatrices packs the first rows[i] rows of params[i].
func (l *Loader) packMatrices(params []*weights.Param, rows []int) backend.Matrix {
	in := params[0].Numel() / params[0].Shape[0]
	out := 0
	first := make([]int, len(params)) // output of each parameter's first row
	parts := make([]backend.BlockRows, 0, len(params))
	for i, p := range params {
		first[i] = out
		out += rows[i]
		if t, ok := p.BlockFormat(); ok {
			parts = append(parts, backend.BlockRows{Out: rows[i], Type: t,
				Row: func(row int, dst []byte) { l.Check(p.ReadBlocks(dst, row)) }})
		}
	}
	var m backend.Matrix
	if b, ok := l.Backend.(backend.BlockPacker); ok && len(parts) == len(params) {
		m = b.PackBlocks(in, parts...)
	} else {
		as := l.Precision
		u, ok := l.Backend.(backend.BlockDecoder)
		if ok && as == backend.F32 && len(parts) == len(params) {
			as = u.DecodedPrecision()
		}
		m = l.Backend.Pack(out, in, as, func(row int, dst []float32) {
			i := len(params) - 1
			for row < first[i] {
				i--
			}
			l.Check(params[i].ReadFloat32s(dst, (row-first[i])*in))
		})
	}
	for _, p := range params {
		l.Release(p)
	}
	return m
}
