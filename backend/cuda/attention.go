//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

var splitHeadsKernel = register("unmask_split_heads")

// The kernels of Attention, by the largest width of a head that they support.
var (
	// plainAttention computes in float32.
	plainAttention = [...]attentionKernel{
		{register("unmask_attention_32"), 32, 0, nil},
		{register("unmask_attention_48"), 48, 0, nil},
		{register("unmask_attention_64"), 64, 0, nil},
		{register("unmask_attention_128"), 128, 0, nil},
	}
	// tensorAttention rounds the factors for tensor cores. Its warps have 16 rows; those of
	// wideTensorAttention have 32 and so read keys and values from shared memory half as often.
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

	// dim is the largest width of a head.
	dim int

	// rows are the rows of a warp on tensor cores; 0 for float32.
	rows int

	// narrow computes the same where queries, keys and values have copies in bfloat16; nil if there
	// is no such kernel.
	narrow *kernel
}

// wideSegmentRows is the number of rows of a segment from which warps of 32 rows are used. Shorter
// segments would leave most rows of such a warp empty.
const wideSegmentRows = 65

// keyTile returns the number of keys of a step. It must agree with keys_of_tile in the kernels.
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
		keepAlive(q, k, v, qkv, r)
		return
	}

	// A full pass attends only to what it computes itself, so that bfloat16 copies of its queries,
	// keys and values are all that its attention reads. A partial pass also reads older keys, of
	// which there are no copies.
	narrow := h.BF16 && length >= wideSegmentRows && isFullPass(segs, pos, length)
	rows := len(segs) * length
	var c *call
	if narrow {
		c = b.fuseLinearHeads(qkv, rows, length, h, r)
	}
	fused := c != nil
	if !fused {
		c = b.begin(splitHeadsKernel, segmentGrid(segs), rowThreads, 0).
			tensor(qkv).segments(segs).ints(pos).int(h.Heads).int(h.HeadDim).int(length).rotary(r)
	}
	c.outputPair(q, rows, narrow)
	c.outputPair(k, rows*h.Heads, narrow)
	c.outputPair(v, rows*h.Heads, narrow)
	if fused {
		c.endLinearHeads(qkv, rows)
	} else {
		c.end()
	}
	keepAlive(q, k, v, qkv, r)
}

// rotary passes the addresses of cosines and sines, 0 for a nil r.
func (c *call) rotary(r *backend.Rotary) *call {
	if r == nil {
		r = &backend.Rotary{}
	}
	return c.tensor(r.Cos).tensor(r.Sin)
}

// Attention computes dst = softmax(q k^T/sqrt(headDim)) v over keys 0..Keys-1 or, if it is causal,
// over those up to the end of the row's own block. Shapes are those of backend.Backend; heads have
// up to 128 numbers.
func (b *Backend) Attention(dst, q, k, v *tensor.Dense, segs []backend.Segment, h backend.Heads) {
	backend.CheckAttention(dst, q, k, v, segs, h)
	b.mu.Lock()
	defer b.mu.Unlock()

	a, blockRows, threads, shared := b.attentionFor(segs, h)
	blocks := b.cutSegments(segs, blockRows)
	if len(blocks) == 0 {
		return
	}
	g := grid{x: len(blocks), y: h.KVHeads(), z: h.Heads / h.KVHeads()}
	var c *call
	narrowQ, narrowK, narrowV, areNarrow := b.findNarrowHeads(a, q, k, v, segs, h)
	if areNarrow {
		c = b.begin(a.narrow, g, threads, shared).
			pointer(narrowQ).pointer(narrowK).pointer(narrowV)
	} else {
		c = b.begin(a.kernel, g, threads, shared).tensor(q).tensor(k).tensor(v)
	}

	// A row at position p sees the keys up to p|span: span is a block of positions less 1, or so
	// large that every key is seen.
	span := 1<<30 - 1
	if h.Causal {
		span = max(h.Block, 1) - 1
	}
	length := k.Shape()[2]
	c.segments(blocks).int(h.Heads).int(h.HeadDim).int(length).int(h.Keys).int(span).
		float(float32(math.Log2E / math.Sqrt(float64(h.HeadDim))))
	if a.rows > 0 {
		rows, contiguous := contiguousRows(segs)
		c.result(dst, rows, contiguous).end()
	} else {
		c.tensor(dst).end()
	}
	keepAlive(dst, q, k, v)
}

// findNarrowHeads returns the bfloat16 copies of queries, keys and values; ok is false unless all
// three exist and a has a kernel that reads them.
func (b *Backend) findNarrowHeads(a *attentionKernel, q, k, v *tensor.Dense, segs []backend.Segment,
	h backend.Heads) (narrowQ, narrowK, narrowV devicePtr, ok bool) {
	if a.narrow == nil || a.dim != h.HeadDim {
		return 0, 0, 0, false
	}
	rows := 0
	sequences := 0
	for _, s := range segs {
		rows = max(rows, s.Row+s.Rows)
		sequences = max(sequences, s.Seq+1)
	}
	keys := sequences * h.KVHeads() * k.Shape()[2]
	narrowQ = b.copies.find(b.addressOf(q), rows, backend.Width(q))
	narrowK = b.copies.find(b.addressOf(k), keys, h.HeadDim)
	narrowV = b.copies.find(b.addressOf(v), keys, h.HeadDim)
	return narrowQ, narrowK, narrowV, narrowQ != 0 && narrowK != 0 && narrowV != 0
}

// attentionFor chooses a kernel, the rows of its blocks, and their threads and bytes of shared
// memory. The choice changes no bits, except that between float32 and tensor cores. That one
// depends on the layer alone: if it depended on the rows, a sequence's bits would depend on its
// batch.
func (b *Backend) attentionFor(segs []backend.Segment, h backend.Heads) (a *attentionKernel,
	blockRows, threads, shared int) {
	if !h.BF16 || h.HeadDim%4 != 0 {
		a = kernelForDim(plainAttention[:], h.HeadDim)
		const rows = 64
		keys := a.keyTile()
		return a, rows, 128, 4 * (rows*(a.dim+4) + keys*(a.dim+4) + keys*a.dim + rows*(keys+16))
	}
	longest := 1
	for _, s := range segs {
		longest = max(longest, s.Rows)
	}

	a = kernelForDim(tensorAttention[:], h.HeadDim)
	if longest >= wideSegmentRows && h.HeadDim <= wideTensorAttention[len(wideTensorAttention)-1].dim {
		a = kernelForDim(wideTensorAttention[:], h.HeadDim)
	}

	// A multiprocessor's time is that of its blocks' warps plus copying the keys for each block.
	// The weights 5 and 6 are estimates, not measurements. A block has at least as many warps as a
	// multiprocessor has schedulers, and at most what its registers allow.
	const fewestWarps = 4
	const mostWarps = 8
	warps := 0
	leastCost := 0
	for w := mostWarps; w >= fewestWarps; w-- {
		blocks := ceilDiv(len(segs)*ceilDiv(longest, w*a.rows)*h.Heads, b.Multiprocessors)
		cost := blocks * (5*w + 6)
		if warps == 0 || cost < leastCost {
			warps = w
			leastCost = cost
		}
	}
	return a, warps * a.rows, 32 * warps, a.keyTile() * (4*2*a.dim + 2*4*(a.dim+8))
}

// MaxHeadDim implements backend.HeadLimited.
func (b *Backend) MaxHeadDim() int { return plainAttention[len(plainAttention)-1].dim }

// kernelForDim returns the first kernel for heads of at least dim numbers.
func kernelForDim(kernels []attentionKernel, dim int) *attentionKernel {
	for i := range kernels {
		if dim <= kernels[i].dim {
			return &kernels[i]
		}
	}
	panic("Attention: heads of more than 128 numbers have no kernel on CUDA")
}

// isFullPass reports whether segments are all positions of the first sequences, in order.
func isFullPass(segs []backend.Segment, pos []int32, length int) bool {
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

// contiguousRows reports whether segments are rows 0..n-1 in order, and returns n. Only then does a
// kernel overwrite whole rows from the first on, which a bfloat16 copy needs.
func contiguousRows(segs []backend.Segment) (n int, ok bool) {
	for _, s := range segs {
		if s.Row != n {
			return 0, false
		}
		n += s.Rows
	}
	return n, true
}

// cutSegments divides segments into pieces of at most `rows` rows, one for each block of a kernel.
// The result is valid until the next call.
func (b *Backend) cutSegments(segs []backend.Segment, rows int) []backend.Segment {
	b.pieces = b.pieces[:0]
	for _, s := range segs {
		for first := 0; first < s.Rows; first += rows {
			b.pieces = append(b.pieces, backend.Segment{
				Seq:  s.Seq,
				Row:  s.Row + first,
				Rows: min(rows, s.Rows-first),
				Pos:  s.Pos + first,
			})
		}
	}
	return b.pieces
}
