package judges

import (
	"sync/atomic"

	"unmask/backend"
	"unmask/backend/plain"
)

// reading is a device for models that are inspected, not run: it reads headers and small matrices,
// because some networks compute with those while loading, but not the values of large ones.
type reading struct {
	*plain.Device
	left *atomic.Int64 // weights of matrices that may still be kept
}

// Limits of what reading keeps, in weights: of one matrix, and of all.
const (
	large     = 1 << 20
	mostSmall = 4 << 20
)

// AttendsLocally implements backend.LocalAttention: nothing is computed.
func (d reading) AttendsLocally() {}

// keeps reports whether a matrix is kept.
func (d reading) keeps(weights int) bool {
	return weights < large && d.left.Add(-int64(weights)) >= 0
}

// seen is a matrix that was not read.
type seen struct {
	out, in int
	as      backend.Precision
}

func (m seen) Out() int                     { return m.out }
func (m seen) In() int                      { return m.in }
func (m seen) Precision() backend.Precision { return m.as }
func (m seen) Bytes() int                   { return 0 }

// Pack reads a small matrix.
func (d reading) Pack(out, in int, as backend.Precision, row backend.RowFunc) backend.Matrix {
	if d.keeps(out * in) {
		return d.Device.Pack(out, in, as, row)
	}
	return seen{out, in, as}
}

// Discards says that weights are not kept, so that a model of any size is inspected.
func (d reading) Discards() {}

// PackBlocks reads a small matrix.
func (d reading) PackBlocks(in int, parts ...backend.BlockRows) backend.Matrix {
	if m := (seen{backend.CheckBlocks(in, parts), in, backend.Blocks}); !d.keeps(m.out * in) {
		return m
	}
	return d.Device.PackBlocks(in, parts...)
}
