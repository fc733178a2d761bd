//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

var splitHeadsKernel = register("unmask_split_heads")

// plainAttention and tensorAttention are kernels by the largest head width they support.
var (
	plainAttention = [...]attentionKernel{
		{register("unmask_attention_32"), 32, 0, nil},
		{register("unmask_attention_48"), 48, 0, nil},
		{register("unmask_attention_64"), 64, 0, nil},
		{register("unmask_attention_128"), 128, 0, nil},
	}
	// Kernels whose warps have 16 rows, and kernels whose warps have 32, which read keys and values
	// from shared memory half as often.
	tensorAttention = [...]attentionKernel{
		{register("unmask_attention_tensor_32x1"), 32, 16, nil},
		{register("unmask_attention_tensor_48x1"), 48, 16, nil},
		{register("unmask_attention_tensor_64x1"), 64, 16, nil},
		{register("unmask_attention_tensor_128x1"), 128, 16, nil},
	}
	wideTensorAttention = [...]attentionKernel{
		{register("unmask_attention_tensor_32x2"), 32, 32, register("unmask_attention_narrow_32")},
		{register("unmask_attention_tensor_48x2"), 48, 32, register("unmask_attention_narrow_48")},
		{register("unmask_attention_tensor_64x2"), 64, 32, register("unmask_attention_narrow_64")},
	}
)

type attentionKernel struct {
	kernel *kernel
	dim    int
	rows   int     // of a warp on tensor cores; 0 for float32
	narrow *kernel // for queries, keys and values with copies in bfloat16
}

// wideRows is the number of rows of a segment from which warps of 32 rows are used.
const wideRows = 65

// keyTile returns the number of keys of a step, like keys_of_tile.
func (a *attentionKernel) keyTile() int {
	if a.dim <= 64 {
		return 64
	}
	return 32
}

// SplitHeads splits rows of qkv: queries go to q, keys and values to their positions in k and v.
// Queries and keys are rotated by the angle of their position unless r is nil.
func (b *Backend) SplitHeads(q, k, v, qkv *tensor.Dense, segs []backend.Segment, pos []int32,
	h backend.Heads, r *backend.Rotary) {
	backend.CheckSplitHeads(q, k, v, qkv, segs, pos, h, r)
	if len(segs) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	length := k.Shape()[2]
	if h.KVHeads() != h.Heads || r != nil && 2*backend.Width(r.Cos) != h.HeadDim {
		b.splitGrouped(q, k, v, qkv, segs, pos, h, r)
		keep(q, k, v, qkv, r)
		return
	}
	// A full pass attends only to what it computes itself.
	narrow := h.BF16 && length >= wideRows && full(segs, pos, length)
	n := len(segs) * length
	var c *call
	if narrow {
		c = b.linearHeads(qkv, n, length, h, r)
	}
	whole := c != nil
	if !whole {
		c = b.begin(splitHeadsKernel, spread(segs), rowThreads, 0).
			tensor(qkv).segments(segs).ints(pos).int(h.Heads).int(h.HeadDim).int(length).rotary(r)
	}
	c.copied(q, n, narrow).copied(k, n*h.Heads, narrow).copied(v, n*h.Heads, narrow)
	if whole {
		c.endLinearHeads(qkv, n)
	} else {
		c.end()
	}
	keep(q, k, v, qkv, r)
}

// rotary passes cosines and sines, 0 for none.
func (c *call) rotary(r *backend.Rotary) *call {
	if r == nil {
		r = &backend.Rotary{}
	}
	return c.tensor(r.Cos).tensor(r.Sin)
}

// Attention computes dst = softmax(q k^T/sqrt(headDim)) v over keys 0..Keys-1 or, if it is causal,
// over those up to the end of the row's own block. Heads have up to 128 numbers.
func (b *Backend) Attention(dst, q, k, v *tensor.Dense, segs []backend.Segment, h backend.Heads) {
	backend.CheckAttention(dst, q, k, v, segs, h)
	b.mu.Lock()
	defer b.mu.Unlock()
	a, each, threads, shared := b.attentionFor(segs, h)
	blocks := b.cut(segs, each)
	if len(blocks) == 0 {
		return
	}
	length := k.Shape()[2]
	g := grid{x: len(blocks), y: h.KVHeads(), z: h.Heads / h.KVHeads()}
	var c *call
	if x, y, z, ok := b.narrowHeads(a, q, k, v, segs, h); ok {
		c = b.begin(a.narrow, g, threads, shared).pointer(x).pointer(y).pointer(z)
	} else {
		c = b.begin(a.kernel, g, threads, shared).tensor(q).tensor(k).tensor(v)
	}
	span := 1<<30 - 1 // all keys
	if h.Causal {
		span = max(h.Block, 1) - 1
	}
	c.segments(blocks).int(h.Heads).int(h.HeadDim).int(length).int(h.Keys).int(span).
		float(float32(math.Log2E / math.Sqrt(float64(h.HeadDim))))
	if a.rows > 0 {
		n, all := contiguous(segs)
		c.result(dst, n, all).end()
	} else {
		c.tensor(dst).end()
	}
	keep(dst, q, k, v)
}

// narrowHeads finds the bfloat16 copies of queries, keys and values, if there are all that a kernel
// needs.
func (b *Backend) narrowHeads(a *attentionKernel, q, k, v *tensor.Dense, segs []backend.Segment,
	h backend.Heads) (x, y, z devicePtr, ok bool) {
	if a.narrow == nil || a.dim != h.HeadDim {
		return 0, 0, 0, false
	}
	rows, seqs := 0, 0
	for _, s := range segs {
		rows, seqs = max(rows, s.Row+s.Rows), max(seqs, s.Seq+1)
	}
	keys := seqs * h.KVHeads() * k.Shape()[2]
	x = b.copies.find(b.address(q), rows, backend.Width(q))
	y, z = b.copies.find(b.address(k), keys, h.HeadDim), b.copies.find(b.address(v), keys, h.HeadDim)
	return x, y, z, x != 0 && y != 0 && z != 0
}

// attentionFor chooses a kernel, the rows of its blocks, and their threads and shared memory. The
// choice changes no bits, except that between float32 and tensor cores, which depends on the layer
// only.
func (b *Backend) attentionFor(segs []backend.Segment, h backend.Heads) (a *attentionKernel, rows,
	threads, shared int) {
	if !h.BF16 || h.HeadDim%4 != 0 {
		a = fitting(plainAttention[:], h.HeadDim)
		const rows = 64
		keys := a.keyTile()
		return a, rows, 128, 4 * (rows*(a.dim+4) + keys*(a.dim+4) + keys*a.dim + rows*(keys+16))
	}
	longest := 1
	for _, s := range segs {
		longest = max(longest, s.Rows)
	}
	// warps per multiprocessor: its schedulers, and what its registers allow
	const fewest, most = 4, 8
	a = fitting(tensorAttention[:], h.HeadDim)
	if longest >= wideRows && h.HeadDim <= wideTensorAttention[len(wideTensorAttention)-1].dim {
		a = fitting(wideTensorAttention[:], h.HeadDim)
	}
	// A multiprocessor's time is that of its blocks' warps plus copying the keys for each block.
	// These are estimates, not measurements.
	warps, least := 0, 0
	for w := most; w >= fewest; w-- {
		blocks := ceilDiv(len(segs)*ceilDiv(longest, w*a.rows)*h.Heads, b.Multiprocessors)
		if cost := blocks * (5*w + 6); warps == 0 || cost < least {
			warps, least = w, cost
		}
	}
	return a, warps * a.rows, 32 * warps, a.keyTile() * (4*2*a.dim + 2*4*(a.dim+8))
}

// MaxHeadDim implements backend.HeadLimited.
func (b *Backend) MaxHeadDim() int { return plainAttention[len(plainAttention)-1].dim }

// fitting returns the first kernel for heads of at least dim numbers.
func fitting(kernels []attentionKernel, dim int) *attentionKernel {
	for i := range kernels {
		if dim <= kernels[i].dim {
			return &kernels[i]
		}
	}
	panic("Attention: heads of more than 128 numbers have no kernel on CUDA")
}

// full reports whether segments are all positions of the first sequences, in order.
func full(segs []backend.Segment, pos []int32, length int) bool {
	for i, s := range segs {
		if s.Seq != i || s.Row != i*length || s.Rows != length {
			return false
		}
		for j, p := range pos[s.Row : s.Row+length] {
			if int(p) != j {
				return false
			}
		}
	}
	return true
}

// contiguous reports whether segments are rows 0..n-1 in order.
func contiguous(segs []backend.Segment) (n int, all bool) {
	for _, s := range segs {
		if s.Row != n {
			return 0, false
		}
		n += s.Rows
	}
	return n, true
}

// cut divides segments into pieces of at most `rows` rows. They are valid until the next call.
func (b *Backend) cut(segs []backend.Segment, rows int) []backend.Segment {
	b.pieces = b.pieces[:0]
	for _, s := range segs {
		for at := 0; at < s.Rows; at += rows {
			b.pieces = append(b.pieces,
				backend.Segment{Seq: s.Seq, Row: s.Row + at, Rows: min(rows, s.Rows-at), Pos: s.Pos + at})
		}
	}
	return b.pieces
}
