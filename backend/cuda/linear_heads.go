//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// linearHeadsKernels are kernels of Linear, by index, with those that compute the same product and
// take its queries, keys and values apart. Their warps have 64 columns.
var linearHeadsKernels = map[int32]*kernel{
	int32(linearTiles[backend.BF16][0].kernel.index): register("unmask_linear_heads_bf16_large"),
	int32(linearTiles[backend.BF16][1].kernel.index): register("unmask_linear_heads_bf16_medium"),
}

const (
	linearHeadsColumns = 64 // of a warp, which must be whole heads where there are angles
	linearParams       = 14 // of Linear's kernels
	linearDst          = 12 // the place of dst among them
)

// unread are float32 numbers that a command of the list writes and nothing has read yet. The
// product that overwrites them takes their writing away.
type unread struct {
	of, end     devicePtr // 0 is none
	rows, width int
	param       int // where the list has the address to write to
	flushes     int // the list that has it
}

// linearHeads takes the list's last command back where that is the product of all that SplitHeads
// is about to take apart, full passes of n rows. The caller passes where queries, keys and values
// go, and calls endLinearHeads. It is nil where SplitHeads needs a kernel of its own.
func (b *Backend) linearHeads(qkv *tensor.Dense, n, length int, h backend.Heads,
	r *backend.Rotary) *call {
	l := &b.list
	last := len(l.commands) - 1
	if last < 0 || h.HeadDim%4 != 0 || r != nil &&
		(h.HeadDim%8 != 0 || linearHeadsColumns%h.HeadDim != 0) {
		return nil
	}
	c := &l.commands[last]
	k := linearHeadsKernels[c.kernel]
	if c.op != launch || k == nil || c.params != linearParams {
		return nil
	}
	p := l.params[c.first:]
	out := uint64(3 * h.Heads * h.HeadDim)
	made := [...]uint64{uint64(n), out, out, uint64(backend.Identity), 0, uint64(math.Float32bits(1)),
		uint64(b.address(qkv)), 0}
	if [...]uint64{p[5], p[7], p[8], p[9], p[10], p[11], p[linearDst], p[linearDst+1]} != made {
		return nil
	}
	b.call.b, b.call.command = b, *c
	b.call.kernel = int32(k.index)
	l.commands[last] = command{}
	l.commands = l.commands[:last]
	b.call.int(h.Heads).int(h.HeadDim).int(length)
	if r != nil {
		return b.call.tensor(r.Cos).tensor(r.Sin)
	}
	return b.call.pointer(0).pointer(0)
}

// endLinearHeads appends the command of linearHeads to the list. Its product [rows, width] has not
// been read.
func (c *call) endLinearHeads(qkv *tensor.Dense, rows int) {
	b := c.b
	p := b.address(qkv)
	u := unread{of: p, end: p + devicePtr(qkv.MemSize()), rows: rows, width: backend.Width(qkv),
		param: int(c.first) + linearDst, flushes: b.list.flushes}
	c.end()
	b.copies.unread = u
}

// overwrite says that the next command overwrites rows of a tensor at p, and has passed all that it
// reads.
func (b *Backend) overwrite(p devicePtr, rows, width int) {
	u := &b.copies.unread
	if u.of == p && p != 0 && u.flushes == b.list.flushes && u.rows <= rows && u.width == width {
		b.list.params[u.param] = 0
	}
}
