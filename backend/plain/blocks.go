package plain

import (
	"unmask/backend"
	"unmask/internal/quant"
)

// PackBlocks keeps the weights' values.
func (d *Device) PackBlocks(in int, parts ...backend.BlockRows) backend.Matrix {
	m := &matrix{out: backend.CheckBlocks(in, parts), in: in, as: backend.Blocks}
	m.w = make([]float32, m.out*in)
	w := m.w
	for _, p := range parts {
		blocks := make([]byte, p.Type.RowBytes(in))
		for i := range p.Out {
			p.Row(i, blocks)
			quant.Decode(p.Type, w[:in], blocks)
			w = w[in:]
		}
	}
	return m
}

// roundGroups rounds each 256 values of a row, and those at its end, to 255 levels of their own, or
// each 32 of a shorter row.
func roundGroups(x []float32) {
	each := 256
	if len(x) < each {
		each = 32
	}
	for n := 0; len(x) > 0; x = x[n:] {
		n = min(each, len(x))
		round(x[:n], backend.Int8)
	}
}
