//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// linearHeadsKernels maps kernels of Linear, by index, to those that compute the same product and
// split its queries, keys and values. Their warps have 64 or 128 columns.
var linearHeadsKernels = map[int32]*kernel{
	int32(linearTiles[backend.BF16][0].kernel.index): register("unmask_linear_heads_bf16_large"),
	int32(linearTiles[backend.BF16][1].kernel.index): register("unmask_linear_heads_bf16_medium"),
	int32(linearTiles[backend.BF16][4].kernel.index): register("unmask_linear_heads_bf16_wgmma256"),
	int32(linearTiles[backend.BF16][5].kernel.index): register("unmask_linear_heads_bf16_wgmma128"),
	int32(linearTiles[backend.BF16][6].kernel.index): register("unmask_linear_heads_bf16_wgmma64"),
}

const (
	// linearHeadsColumns is the least number of columns of a warp. They must be whole heads if heads
	// are rotated, because a rotation joins numbers of both halves of a head.
	linearHeadsColumns = 64

	linearParams = 14 // number of parameters of Linear's kernels
	linearDst    = 12 // index of dst among them
)

// unreadOutput are float32 numbers that a command of the list writes and nothing has read yet. A
// product that overwrites them removes that write.
type unreadOutput struct {
	// start and end are the memory of the tensor; 0 if there is none.
	start devicePtr
	end   devicePtr

	rows  int
	width int

	// param is the index, in the parameters of list number flushes, of the address to which the
	// numbers are written.
	param   int
	flushes int
}

// fuseLinearHeads replaces the list's last command, if that is the product that SplitHeads is about
// to split as a whole, by one that computes the product and splits it: qkv then goes through memory
// once less. It is for full passes of n rows. The caller passes the addresses for queries, keys and
// values, and calls endLinearHeads. fuseLinearHeads returns nil, and changes nothing, if SplitHeads
// needs a kernel of its own.
func (b *Backend) fuseLinearHeads(qkv *tensor.Dense, n, length int, h backend.Heads,
	r *backend.Rotary) *call {
	l := &b.list
	last := len(l.commands) - 1
	if last < 0 || h.HeadDim%4 != 0 {
		return nil
	}
	if r != nil && (h.HeadDim%8 != 0 || linearHeadsColumns%h.HeadDim != 0) {
		return nil
	}
	c := &l.commands[last]
	k := linearHeadsKernels[c.kernel]
	if c.op != launch || k == nil || c.params != linearParams {
		return nil
	}

	// The product must be that of exactly these rows, into exactly this tensor, without activation,
	// addition or scale.
	p := l.params[c.first:]
	out := uint64(3 * h.Heads * h.HeadDim)
	want := [...]uint64{uint64(n), out, out, uint64(backend.Identity), 0,
		uint64(math.Float32bits(1)), uint64(b.addressOf(qkv)), 0}
	found := [...]uint64{p[5], p[7], p[8], p[9], p[10], p[11], p[linearDst], p[linearDst+1]}
	if found != want {
		return nil
	}

	b.call.b = b
	b.call.command = *c
	b.call.kernel = int32(k.index)
	l.commands[last] = command{}
	l.commands = l.commands[:last]
	return b.call.int(h.Heads).int(h.HeadDim).int(length).rotary(r)
}

// endLinearHeads appends the command of fuseLinearHeads to the list. Its product [rows, width] has
// not been read.
func (c *call) endLinearHeads(qkv *tensor.Dense, rows int) {
	b := c.b
	p := b.addressOf(qkv)
	output := unreadOutput{
		start:   p,
		end:     p + devicePtr(qkv.MemSize()),
		rows:    rows,
		width:   backend.Width(qkv),
		param:   int(c.first) + linearDst,
		flushes: b.list.flushes,
	}
	c.end() // may send the list; then output belongs to a list of the past
	b.copies.unread = output
}

// recordOverwrite records that the current command overwrites rows of a tensor at p: if nothing has
// read what an earlier command of this list wrote there, that command need not write it. Everything
// that the current command reads must have been passed before.
func (b *Backend) recordOverwrite(p devicePtr, rows, width int) {
	u := &b.copies.unread
	if u.start == p && p != 0 && u.flushes == b.list.flushes && u.rows <= rows && u.width == width {
		b.list.params[u.param] = 0
	}
}
