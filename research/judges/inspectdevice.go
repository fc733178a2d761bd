package judges

import (
	"sync/atomic"

	"unmask/backend"
	"unmask/backend/plain"
)

// inspectDevice is a device for models that are inspected, not run: it reads headers and small
// matrices, because some networks compute with those while loading, but not the values of large
// ones.
type inspectDevice struct {
	*plain.Device

	// budget is how many weights of matrices may still be kept.
	budget *atomic.Int64
}

// Limits of what an inspectDevice keeps, in weights.
const (
	maxMatrix = 1 << 20 // of one matrix
	maxKept   = 4 << 20 // of all
)

// AttendsLocally implements backend.LocalAttention: nothing is computed.
func (d inspectDevice) AttendsLocally() {}

// keepsMatrix reports whether a matrix is kept.
func (d inspectDevice) keepsMatrix(weights int) bool {
	return weights < maxMatrix && d.budget.Add(-int64(weights)) >= 0
}

// unreadMatrix is a matrix that was not read.
type unreadMatrix struct {
	out       int
	in        int
	precision backend.Precision
}

func (m unreadMatrix) Out() int                     { return m.out }
func (m unreadMatrix) In() int                      { return m.in }
func (m unreadMatrix) Precision() backend.Precision { return m.precision }
func (m unreadMatrix) Bytes() int                   { return 0 }

// Pack reads a small matrix.
func (d inspectDevice) Pack(out, in int, as backend.Precision, row backend.RowFunc) backend.Matrix {
	if d.keepsMatrix(out * in) {
		return d.Device.Pack(out, in, as, row)
	}
	return unreadMatrix{out, in, as}
}

// Discards says that weights are not kept, so that a model of any size is inspected.
func (d inspectDevice) Discards() {}

// PackBlocks reads a small matrix.
func (d inspectDevice) PackBlocks(in int, parts ...backend.BlockRows) backend.Matrix {
	out := backend.CheckBlocks(in, parts)
	if !d.keepsMatrix(out * in) {
		return unreadMatrix{out, in, backend.Blocks}
	}
	return d.Device.PackBlocks(in, parts...)
}
