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
	blocks := make([]backend.BlockRows, 0, len(params))
	for i, p := range params {
		first[i] = out
		out += rows[i]
		if format, ok := p.BlockFormat(); ok {
			readRow := func(row int, dst []byte) { l.Check(p.ReadBlocks(dst, row)) }
			blocks = append(blocks, backend.BlockRows{Out: rows[i], Type: format, Row: readRow})
		}
	}
	allBlocks := len(blocks) == len(params)

	var packed backend.Matrix
	if b, ok := l.Backend.(backend.BlockPacker); ok && allBlocks {
		packed = b.PackBlocks(in, blocks...)
	} else {
		precision := l.Precision
		d, ok := l.Backend.(backend.BlockDecoder)
		if ok && allBlocks && precision == backend.F32 {
			precision = d.DecodedPrecision()
		}
		packed = l.Backend.Pack(out, in, precision, func(row int, dst []float32) {
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
	return packed
}
