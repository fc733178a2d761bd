package judges

import (
	"unmask/backend"
	"unmask/backend/plain"
)

// reading is a device for models that are inspected, not run: it reads all weights, which checks
// them, but does not keep large matrices. It keeps small ones, because some networks compute with
// them while loading.
type reading struct{ *plain.Device }

func newReading() backend.Backend { return reading{plain.New().(*plain.Device)} }

// large is the size, in weights, from which matrices are not kept.
const large = 1 << 22

// seen is a matrix that was read and not kept.
type seen struct {
	out, in int
	as      backend.Precision
}

func (m seen) Out() int                     { return m.out }
func (m seen) In() int                      { return m.in }
func (m seen) Precision() backend.Precision { return m.as }
func (m seen) Bytes() int                   { return 0 }

// Pack reads all rows.
func (d reading) Pack(out, in int, as backend.Precision, row backend.RowFunc) backend.Matrix {
	if out*in < large {
		return d.Device.Pack(out, in, as, row)
	}
	x := make([]float32, in)
	for i := range out {
		row(i, x)
	}
	return seen{out, in, as}
}

// PackBlocks reads all rows.
func (d reading) PackBlocks(in int, parts ...backend.BlockRows) backend.Matrix {
	m := seen{backend.CheckBlocks(in, parts), in, backend.Blocks}
	if m.out*in < large {
		return d.Device.PackBlocks(in, parts...)
	}
	for _, p := range parts {
		row := make([]byte, p.Type.RowBytes(in))
		for i := range p.Out {
			p.Row(i, row)
		}
	}
	return m
}
