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

// roundRuns rounds each run of 32 values of a row to 255 levels.
func roundRuns(x []float32) {
	for ; len(x) > 0; x = x[32:] {
		round(x[:32], backend.Int8)
	}
}
