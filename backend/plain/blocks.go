package plain

import (
	"unmask/backend"
	"unmask/internal/quant"
)

// PackBlocks keeps the weights' values as float32; Linear rounds the activations as for blocks.
func (d *Device) PackBlocks(in int, parts ...backend.BlockRows) backend.Matrix {
	m := &matrix{out: backend.CheckBlocks(in, parts), in: in, precision: backend.Blocks}
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

// roundGroups rounds each 256 values of a row, and those at its end, to 255 levels of their own. A
// row shorter than 256 has levels for each 32 values.
func roundGroups(x []float32) {
	group := 256
	if len(x) < group {
		group = 32
	}
	for len(x) > 0 {
		n := min(group, len(x))
		roundTo(x[:n], backend.Int8)
		x = x[n:]
	}
}
