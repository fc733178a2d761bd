package cpu

import (
	"runtime"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// source packs rows of the left factor: those of a tensor, or the windows of an image.
type source interface {
	pack(m *matrix, a operand, w *worker, first, rows int)
}

// product is the parallel matrix product dst = epilogue(source W^T) and its memory.
//
// Work is cut into blocks of rows and ranges of panels. Within a block the panels pass one by
// one, each finished, biased, activated and stored while its tile is in the nearest cache.
// There are two orders:
//
//   - resident: each item has its own block of rows, which stays in the second-level cache
//     while all the panels, or a range of them, stream past. For many rows, and weights that the
//     last cache holds.
//   - streamed: all rows are packed once, each item takes a few panels past all of them. For
//     few rows, and for weights that must come from memory, so they come once.
type product struct {
	b    *Backend
	w    *matrix
	from source
	rows int
	// of Linear; it is a field because converting it to an interface must not allocate
	x rowSource

	dst    []float32 // dst[row*stride+column]
	stride int
	bias   []float32
	times  []float32 // laid out as dst, nil for 1
	act    backend.Activation
	add    bool

	block        int  // rows of a block
	parts, items int  // row parts, and panel ranges
	base         int  // first of the packed rows
	shared       bool // resident order: all rows are packed beforehand
	packed       operand
	memory       buffer

	pack, resident, streamed func(worker, i int) // made once, because a closure allocates
}

func (p *product) init(b *Backend) {
	p.b = b
	p.pack = p.packItem
	p.resident = p.residentItem
	p.streamed = p.streamedItem
}

const (
	maxBlock    = 128     // rows of a block
	blocksBlock = 256     // the same for weights in block formats
	streamRows  = 1024    // rows packed at a time in the streamed order
	cachedWords = 4 << 20 // words of weights that fit into the last-level cache beside the rest
	itemsEach   = 8       // items per thread, so that threads end at about the same time
)

// run computes the product.
func (p *product) run(from source, rows int, w *matrix) {
	p.prepare(from, w)
	if rows > p.block && len(w.memory.data) <= cachedWords {
		p.rows = rows
		blocks := (rows + p.block - 1) / p.block
		// avoid a small last block, which would stream the weights for a few rows
		even := (rows + blocks - 1) / blocks
		p.block = (even + w.k.Rows - 1) / w.k.Rows * w.k.Rows
		p.items = p.ranges(blocks)
		p.shared = p.items > 1 // several items use the same rows, so these are packed once
		if p.shared {
			p.base = 0
			p.packAll()
		}
		p.parts = blocks
		p.b.pool.For(p.parts*p.items, p.resident)
	} else {
		for p.base = 0; p.base < rows; p.base += streamRows {
			p.rows = min(streamRows, rows-p.base)
			p.stream()
		}
	}
	p.from, p.dst, p.bias, p.times = nil, nil, nil, nil
	runtime.KeepAlive(w)
}

func (p *product) prepare(from source, w *matrix) {
	p.from, p.w = from, w
	p.block = min(maxBlock, w.k.Cache/(4*w.lines))
	// take a part of the depth at a time, unpacked once for all rows of a block
	if w.as == backend.Blocks {
		p.block = blocksBlock
	}
	p.block = max(1, p.block/w.k.Rows) * w.k.Rows
}

// ranges returns how many ranges to divide the panels into, given a number of blocks.
func (p *product) ranges(blocks int) int {
	want := itemsEach * p.b.pool.Threads()
	return min(p.w.panels(), max(1, (want+blocks-1)/blocks))
}

// stream multiplies up to streamRows rows in the streamed order.
func (p *product) stream() {
	p.packAll()
	p.items = p.ranges(1)
	p.parts = min(p.parts, max(1, 2*p.b.pool.Threads()/p.items))
	p.b.pool.For(p.parts*p.items, p.streamed)
}

// packAll packs p.rows rows, in p.parts panels.
func (p *product) packAll() {
	k := p.w.k
	p.packed = p.w.operand(p.rows, &p.memory)
	p.parts = (p.rows + k.Rows - 1) / k.Rows
	p.b.pool.For(p.parts, p.pack)
}

// packItem packs one panel of rows.
func (p *product) packItem(worker, i int) {
	first := i * p.w.k.Rows
	n := min(p.w.k.Rows, p.rows-first)
	p.from.pack(p.w, p.packed.from(p.w, first), &p.b.workers[worker], p.base+first, n)
}

func (p *product) residentItem(worker, i int) {
	first, w := i/p.items*p.block, &p.b.workers[worker]
	n := min(p.block, p.rows-first)
	var a operand
	if p.shared {
		a = p.packed.from(p.w, first)
	} else {
		a = p.w.operand(n, &w.a)
		p.from.pack(p.w, a, w, first, n)
	}
	from, to := p.panelRange(i % p.items)
	for j := from; j < to; j++ {
		p.finish(w, a, first, n, j)
	}
}

func (p *product) streamedItem(worker, i int) {
	from, to := p.panelRange(i / p.parts)
	k, part := p.w.k, i%p.parts
	all := (p.rows + k.Rows - 1) / k.Rows
	row, end := all*part/p.parts*k.Rows, min(p.rows, all*(part+1)/p.parts*k.Rows)
	for ; row < end; row += p.block {
		n := min(p.block, end-row)
		for j := from; j < to; j++ {
			p.finish(&p.b.workers[worker], p.packed.from(p.w, row), p.base+row, n, j)
		}
	}
}

func (p *product) panelRange(i int) (from, to int) {
	n := p.w.panels()
	return n * i / p.items, n * (i + 1) / p.items
}

// finish computes and stores the tile of rows first.. and panel j. Int8 tiles are scaled too, and
// cut to stay in the nearest cache.
func (p *product) finish(w *worker, a operand, first, rows, j int) {
	step := rows
	if p.w.as == backend.Int8 {
		step = 8 * p.w.k.Rows
	}
	for at := 0; at < rows; at += step {
		n := min(step, rows-at)
		p.fetch(first+at, n, j)
		p.put(p.tile(w, a.from(p.w, at), n, j), first+at, n, j)
	}
}

// fetch asks for what put will need when the tile of rows first.. and panel j is computed.
func (p *product) fetch(first, rows, j int) {
	k := p.w.k
	at, columns := first*p.stride+j*k.Columns, min(k.Columns, p.w.out-j*k.Columns)
	if p.times != nil {
		k.Fetch(p.times[at:], p.stride, rows, columns)
	}
	k.Fetch(p.dst[at:], p.stride, rows, columns)
}

// tile computes the tile [rows, k.Columns] of an operand's first rows and panel j.
func (p *product) tile(w *worker, a operand, rows, j int) []float32 {
	n := p.w.k.Columns
	tile := w.tile.get(p.block * n)[:rows*n]
	p.w.tile(tile, n, a, rows, j, w)
	return tile
}

// put stores the tile [rows, k.Columns] of rows first.. and panel j, after bias and activation.
func (p *product) put(tile []float32, first, rows, j int) {
	k := p.w.k
	n, at := k.Columns, first*p.stride+j*k.Columns
	columns, bias := min(n, p.w.out-j*n), p.bias
	if bias != nil {
		bias = bias[j*n:][:columns]
	}
	if bias != nil && (p.act != backend.Identity || p.times != nil) {
		k.Store(tile, n, tile, n, bias, rows, columns, false)
		bias = nil
	}
	if p.act != backend.Identity {
		functions[p.act](p.b.ops, tile, tile)
	}
	if p.times != nil {
		k.Times(tile, n, p.times[at:], p.stride, rows, columns)
	}
	k.Store(p.dst[at:], p.stride, tile, n, bias, rows, columns, p.add)
}

// Linear computes dst[:rows] = epilogue(x[:rows] W^T).
func (b *Backend) Linear(dst, x *tensor.Dense, rows int, w backend.Matrix, e backend.Epilogue) {
	backend.CheckLinear(dst, x, rows, w, e)
	b.mu.Lock()
	defer b.done()
	if rows > 0 {
		b.linearOf(dst.Float32s(), x.Float32s(), rows, w.(*matrix), e)
	}
}

// target sets the product's destination and epilogue.
func (p *product) target(dst []float32, stride int, e backend.Epilogue) {
	p.dst, p.stride = dst, stride
	p.bias, p.times, p.act, p.add = data(e.Bias), data(e.Times), e.Act, e.Add
}

// rowSource packs rows of a matrix that are `stride` values apart.
type rowSource struct {
	x             []float32
	stride, width int
}

func (s *rowSource) pack(m *matrix, a operand, w *worker, first, rows int) {
	m.pack(a, s.x[first*s.stride:], s.stride, rows, w)
}
