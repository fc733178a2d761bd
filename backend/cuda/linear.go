//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/parallel"
)

var (
	bf16RowsKernel = register("unmask_bf16_rows")
	int8RowsKernel = register("unmask_int8_rows")
)

// tile is a kernel in which each block computes a part of a product.
type tile struct {
	kernel *kernel

	// rows and columns are the part of the product that a block computes.
	rows    int
	columns int

	// threads are those of a block, and shared its bytes of dynamic shared memory.
	threads int
	shared  int

	// firstBlock is the time of a multiprocessor's first block, nextBlock that of each other one, in
	// picoseconds for each number of the depth. They are fitted to the times of an H100 and, for the
	// tiles that only Hopper has, of an H200 (docs/dev/cuda.md).
	firstBlock int
	nextBlock  int
}

// linearTiles are the tiles of Linear, from the one with the most work per byte to the one with the
// most blocks. All tiles of a precision give the same bits, so that which one is fastest may depend
// on the number of rows.
var linearTiles = [...][]tile{
	backend.F32: {
		{register("unmask_linear_f32_large"), 128, 128, 256, 33792, 112450, 100170},
		{register("unmask_linear_f32_small"), 64, 64, 128, 17408, 48350, 32640},
		{register("unmask_linear_f32_tiny"), 32, 32, 64, 9216, 29010, 9820},
	},
	backend.BF16: {
		{register("unmask_linear_bf16_large"), 128, 256, 256, 98304, 38280, 36610},
		{register("unmask_linear_bf16_medium"), 128, 128, 128, 65536, 24760, 12970},
		{register("unmask_linear_bf16_small"), 64, 64, 128, 65536, 10620, 4170},
		{register("unmask_linear_bf16_tiny"), 32, 32, 128, 65536, 7200, 1950},
		{register("unmask_linear_bf16_wgmma256"), 256, 128, 512, 196608, 18240, 10550},
		{register("unmask_linear_bf16_wgmma128"), 128, 128, 256, 98304, 18380, 8540},
		{register("unmask_linear_bf16_wgmma64"), 64, 128, 128, 98304, 11780, 8060},
	},
	backend.Int8: {
		{register("unmask_linear_int8_large"), 128, 256, 256, 98304, 26540, 24410},
		{register("unmask_linear_int8_medium"), 128, 128, 128, 65536, 19370, 8620},
		{register("unmask_linear_int8_small"), 64, 64, 128, 65536, 8950, 2570},
		{register("unmask_linear_int8_tiny"), 32, 32, 128, 65536, 6630, 1180},
		{register("unmask_linear_int8_wgmma256"), 256, 128, 512, 196608, 17630, 8630},
		{register("unmask_linear_int8_wgmma128"), 128, 128, 256, 98304, 14600, 7650},
		{register("unmask_linear_int8_wgmma64"), 64, 128, 128, 98304, 7390, 4220},
	},
}

// blockCount returns the number of blocks of this tile in a product.
func (t *tile) blockCount(rows, out int) int {
	return ceilDiv(rows, t.rows) * ceilDiv(out, t.columns)
}

// runsTile reports whether the device has a tile's kernel and the matrix consists of whole tiles.
func (b *Backend) runsTile(t *tile, m *matrix) bool {
	return b.hasKernel(t.kernel) && m.rows%t.columns == 0
}

// fastestTile returns the tile with the least time, if the blocks are spread evenly.
func (b *Backend) fastestTile(tiles []tile, rows int, m *matrix) *tile {
	var best *tile
	leastTime := 0
	for i := range tiles {
		t := &tiles[i]
		if !b.runsTile(t, m) {
			continue
		}
		laterBlocks := (t.blockCount(rows, m.out) - 1) / max(b.Multiprocessors, 1)
		time := t.firstBlock + laterBlocks*t.nextBlock
		if best == nil || time < leastTime {
			best = t
			leastTime = time
		}
	}
	return best
}

// products is the working memory of products.
type products struct {
	pool *parallel.Pool // see workers

	narrow scratchMemory // rows of activations in the weights' precision
	scale  scratchMemory // with Int8, the scales of these rows
	gated  scratchMemory // products before they are multiplied by Times
}

// workers returns a pool of all processors for work on the host.
func (p *products) workers() *parallel.Pool {
	if p.pool == nil {
		p.pool = parallel.New(0)
	}
	return p.pool
}

// operand is activations in the form that a product reads.
type operand struct {
	data  devicePtr
	scale devicePtr // with Int8, a scale for each row
}

// roundRows converts rows to the precision of a matrix. A separate kernel reads each number once,
// whereas the tiles of a product read it many times: as float32 that would take twice the bandwidth
// of the L2 cache, which limits them.
func (b *Backend) roundRows(x devicePtr, rows int, m *matrix) operand {
	if m.precision == backend.F32 {
		return operand{data: x}
	}
	if m.precision == backend.BF16 && b.copies.wantsCopy(m.in) {
		if p := b.copies.find(x, rows, m.in); p != 0 {
			return operand{data: p}
		}
	}
	const threads = 256
	o := operand{data: b.scratch(&b.products.narrow, roundUp(rows, rowPad)*m.stride)}
	if m.precision == backend.BF16 {
		b.begin(bf16RowsKernel, grid{x: ceilDiv(rows*m.stride/16, threads)}, threads, 0).
			pointer(o.data).pointer(x).int(rows).int(m.in).int(m.stride).end()
		return o
	}
	o.scale = b.scratch(&b.products.scale, 4*rows)
	b.begin(int8RowsKernel, grid{x: ceilDiv(rows, threads/32)}, threads, 0).
		pointer(o.data).pointer(o.scale).pointer(x).int(rows).int(m.in).int(m.stride).end()
	return o
}

// Linear computes dst[:rows] = epilogue(x[:rows] W^T).
func (b *Backend) Linear(dst, x *tensor.Dense, rows int, w backend.Matrix, e backend.Epilogue) {
	backend.CheckLinear(dst, x, rows, w, e)
	if rows == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m := w.(*matrix)
	if e.Times != nil {
		b.linearGated(dst, x, rows, m, e)
		keepAlive(dst, x, m, e)
		return
	}

	// The result of an activation usually goes to another product, so it is written in the form that
	// the product reads.
	target := b.addressOf(dst)
	source := b.addressOf(x)
	bias := b.addressOf(e.Bias)
	narrow := m.precision == backend.BF16 && e.Act != backend.Identity && !e.Add &&
		b.copies.wantsCopy(m.out)
	if narrow {
		b.beginLinear(source, rows, m, m.out, bias, e.Act, false, 1).result(dst, rows, true).end()
	} else {
		c := b.beginLinear(source, rows, m, m.out, bias, e.Act, e.Add, 1)
		if !e.Add {
			b.recordOverwrite(target, rows, m.out)
		}
		c.pointer(target).pointer(0).end()
	}
	keepAlive(dst, x, m, e.Bias)
}

// beginLinear begins act(x W^T + bias) * scale, which overwrites dst or is added to it; rows of dst
// are pitch numbers apart. The caller passes dst and its copy.
func (b *Backend) beginLinear(x devicePtr, rows int, m *matrix, pitch int, bias devicePtr,
	act backend.Activation, add bool, scale float32) *call {
	t := b.fastestTile(linearTiles[m.precision], rows, m)
	return b.beginTile(t, b.roundRows(x, rows, m), rows, m, pitch, bias, act, add, scale)
}

// beginTile is linear with a given tile and activations in the form that it reads.
func (b *Backend) beginTile(t *tile, o operand, rows int, m *matrix, pitch int, bias devicePtr,
	act backend.Activation, add bool, scale float32) *call {
	return b.begin(t.kernel, grid{x: t.blockCount(rows, m.out)}, t.threads, t.shared).
		product(o, rows, m, bias).int(m.out).int(pitch).int(int(act)).int(flagOf(add)).float(scale)
}

// product passes the factors of a product, the bias and the depth.
func (c *call) product(o operand, rows int, m *matrix, bias devicePtr) *call {
	c.pointer(o.data).pointer(m.data).pointer(bias)
	if m.precision == backend.F32 {
		return c.int(rows).int(m.in).int(m.stride / 4)
	}
	return c.pointer(o.scale).pointer(m.channelScales()).int(rows).int(m.stride)
}

// channelScales returns the scales of the channels, 0 if there are none.
func (m *matrix) channelScales() devicePtr {
	if m.precision != backend.Int8 {
		return 0
	}
	return m.scale
}

// flagOf returns v as kernels take it, 1 or 0.
func flagOf(v bool) int {
	if v {
		return 1
	}
	return 0
}
