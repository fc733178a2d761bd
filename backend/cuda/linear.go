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
	kernel                         *kernel
	rows, columns, threads, shared int
	// first is the time of a multiprocessor's first block, more that of each other one, in
	// picoseconds a number of the depth, as fitted to the times of an H100 and, of the tiles that
	// only Hopper has, an H200 (docs/cuda.md).
	first, more int
}

// tiles of Linear, from the one with the most work per byte to the one with the most blocks. All
// tiles of a precision give the same bits.
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

// blocks returns the number of blocks of this tile in a product.
func (t *tile) blocks(rows, out int) int {
	return (rows + t.rows - 1) / t.rows * ((out + t.columns - 1) / t.columns)
}

// runs reports whether the device has a tile's kernel and the matrix is of its whole tiles.
func (b *Backend) runs(t *tile, m *matrix) bool { return b.has(t.kernel) && m.rows%t.columns == 0 }

// best returns the tile with the least time, if the blocks are spread evenly.
func (b *Backend) best(tiles []tile, rows int, m *matrix) *tile {
	var best *tile
	least := 0
	for i := range tiles {
		t := &tiles[i]
		if !b.runs(t, m) {
			continue
		}
		others := (t.blocks(rows, m.out) - 1) / max(b.Multiprocessors, 1)
		if cost := t.first + others*t.more; best == nil || cost < least {
			best, least = t, cost
		}
	}
	return best
}

// products is the working memory of products.
type products struct {
	pool   *parallel.Pool
	narrow memory // rows of activations in the weights' precision
	scale  memory // Int8: their scales
	gated  memory // products before they are multiplied by Times
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
	data, scale devicePtr
}

// round converts rows to the precision of a matrix. A separate kernel reads each number once,
// whereas the tiles of a product read it many times: as float32 that would take twice the bandwidth
// of the L2 cache, which limits them.
func (b *Backend) round(x devicePtr, rows int, m *matrix) operand {
	if m.as == backend.F32 {
		return operand{data: x}
	}
	if m.as == backend.BF16 && b.copies.may(m.in) {
		if p := b.copies.find(x, rows, m.in); p != 0 {
			return operand{data: p}
		}
	}
	const threads = 256
	o := operand{data: b.scratch(&b.products.narrow, roundUp(rows, rowPad)*m.stride)}
	if m.as == backend.BF16 {
		b.begin(bf16RowsKernel, grid{x: (rows*m.stride/16 + threads - 1) / threads}, threads, 0).
			pointer(o.data).pointer(x).int(rows).int(m.in).int(m.stride).end()
		return o
	}
	o.scale = b.scratch(&b.products.scale, 4*rows)
	b.begin(int8RowsKernel, grid{x: (rows + threads/32 - 1) / (threads / 32)}, threads, 0).
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
		b.gated(dst, x, rows, m, e)
		keep(dst, x, m, e)
		return
	}
	to, from, bias := b.address(dst), b.address(x), b.address(e.Bias)
	// The result of an activation usually goes to another product, so it is written in the form that
	// the product reads.
	narrow := m.as == backend.BF16 && e.Act != backend.Identity && !e.Add && b.copies.may(m.out)
	if narrow {
		b.linear(from, rows, m, m.out, bias, e.Act, false, 1).result(dst, rows, true).end()
	} else {
		c := b.linear(from, rows, m, m.out, bias, e.Act, e.Add, 1)
		if !e.Add {
			b.overwrite(to, rows, m.out)
		}
		c.pointer(to).pointer(0).end()
	}
	keep(dst, x, m, e.Bias)
}

// linear begins act(x W^T + bias) * scale, which overwrites dst or is added to it; rows of dst are
// pitch numbers apart. The caller passes dst and its copy.
func (b *Backend) linear(x devicePtr, rows int, m *matrix, pitch int, bias devicePtr,
	act backend.Activation, add bool, scale float32) *call {
	return b.tile(b.best(linearTiles[m.as], rows, m), b.round(x, rows, m), rows, m, pitch, bias, act,
		add, scale)
}

// tile is linear with a given tile and activations in the form that it reads.
func (b *Backend) tile(t *tile, o operand, rows int, m *matrix, pitch int, bias devicePtr,
	act backend.Activation, add bool, scale float32) *call {
	return b.begin(t.kernel, grid{x: t.blocks(rows, m.out)}, t.threads, t.shared).
		product(o, rows, m, bias).int(m.out).int(pitch).int(int(act)).int(flag(add)).float(scale)
}

// product passes the factors of a product, the bias and the depth.
func (c *call) product(o operand, rows int, m *matrix, bias devicePtr) *call {
	c.pointer(o.data).pointer(m.data).pointer(bias)
	if m.as == backend.F32 {
		return c.int(rows).int(m.in).int(m.stride / 4)
	}
	return c.pointer(o.scale).pointer(m.channels()).int(rows).int(m.stride)
}

// channels returns the scales of the channels, 0 if there are none.
func (m *matrix) channels() devicePtr {
	if m.as != backend.Int8 {
		return 0
	}
	return m.scale
}

func flag(v bool) int {
	if v {
		return 1
	}
	return 0
}
