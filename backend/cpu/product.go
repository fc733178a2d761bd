package cpu

import (
	"runtime"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// rowPacker packs rows of the left factor: those of a tensor, or the windows of an image.
type rowPacker interface {
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
	backend *Backend

	// weights and source are the factors. With the streamed order, rows are those packed at a time;
	// otherwise all.
	weights *matrix
	source  rowPacker
	rows    int

	// linearRows is Linear's source; it is a field because converting it to an interface must not
	// allocate.
	linearRows rowSource

	// Value (row, column) goes to dst[row*stride+column]. times is laid out as dst, nil for 1.
	dst    []float32
	stride int
	bias   []float32
	times  []float32
	act    backend.Activation
	add    bool

	// blockRows are the rows of a block, a multiple of the kernel's.
	blockRows int

	// An item is one of rowParts parts of the rows and one of panelRanges ranges of panels.
	rowParts    int
	panelRanges int

	// packed are the rows that were packed before the items run, from row firstPacked on. The
	// resident order packs them beforehand only if packedOnce is set.
	firstPacked int
	packedOnce  bool
	packed      operand
	memory      buffer

	// packPanel, computeResident and computeStreamed, made once because a method value allocates
	packFunc     func(worker, i int)
	residentFunc func(worker, i int)
	streamedFunc func(worker, i int)
}

func (p *product) init(b *Backend) {
	p.backend = b
	p.packFunc = p.packPanel
	p.residentFunc = p.computeResident
	p.streamedFunc = p.computeStreamed
}

const (
	maxBlock    = 128     // rows of a block
	blocksBlock = 256     // the same for weights in block formats
	streamRows  = 1024    // rows packed at a time in the streamed order
	cachedWords = 4 << 20 // words of weights that fit into the last-level cache beside the rest
	itemsEach   = 8       // items per thread, so that threads end at about the same time
)

// run computes the product of `rows` rows of source and w. The order depends on sizes alone, and
// both orders give the same bits.
func (p *product) run(source rowPacker, rows int, w *matrix) {
	p.setFactors(source, w)
	if rows > p.blockRows && len(w.memory.data) <= cachedWords {
		p.rows = rows
		blocks := (rows + p.blockRows - 1) / p.blockRows

		// avoid a small last block, which would stream the weights for a few rows
		evenRows := (rows + blocks - 1) / blocks
		p.blockRows = (evenRows + w.kernel.Rows - 1) / w.kernel.Rows * w.kernel.Rows

		p.panelRanges = p.rangeCount(blocks)
		p.packedOnce = p.panelRanges > 1 // several items use the same rows, so these are packed once
		if p.packedOnce {
			p.firstPacked = 0
			p.packAll()
		}
		p.rowParts = blocks
		p.backend.pool.For(p.rowParts*p.panelRanges, p.residentFunc)
	} else {
		for p.firstPacked = 0; p.firstPacked < rows; p.firstPacked += streamRows {
			p.rows = min(streamRows, rows-p.firstPacked)
			p.runStreamed()
		}
	}
	p.source = nil // the product must not keep tensors alive
	p.dst = nil
	p.bias = nil
	p.times = nil
	runtime.KeepAlive(w)
}

// setFactors stores the factors and chooses the rows of a block: as many as the second-level cache
// holds.
func (p *product) setFactors(source rowPacker, w *matrix) {
	p.source = source
	p.weights = w
	p.blockRows = min(maxBlock, w.kernel.Cache/(4*w.lines))
	if w.precision == backend.Blocks {
		// These kernels take a part of the depth at a time, unpacked once for all rows of a block,
		// so that longer blocks do not leave the cache and unpack less often.
		p.blockRows = blocksBlock
	}
	p.blockRows = max(1, p.blockRows/w.kernel.Rows) * w.kernel.Rows
}

// rangeCount returns how many ranges to divide the panels into, given a number of blocks: enough
// for itemsEach items per thread.
func (p *product) rangeCount(blocks int) int {
	items := itemsEach * p.backend.pool.Threads()
	return min(p.weights.panelCount(), max(1, (items+blocks-1)/blocks))
}

// runStreamed multiplies up to streamRows rows in the streamed order.
func (p *product) runStreamed() {
	p.packAll()
	p.panelRanges = p.rangeCount(1)
	p.rowParts = min(p.rowParts, max(1, 2*p.backend.pool.Threads()/p.panelRanges))
	p.backend.pool.For(p.rowParts*p.panelRanges, p.streamedFunc)
}

// packAll packs p.rows rows, in p.parts panels.
func (p *product) packAll() {
	k := p.weights.kernel
	p.packed = p.weights.newOperand(p.rows, &p.memory)
	p.rowParts = (p.rows + k.Rows - 1) / k.Rows
	p.backend.pool.For(p.rowParts, p.packFunc)
}

// packPanel packs one panel of rows.
func (p *product) packPanel(worker, i int) {
	first := i * p.weights.kernel.Rows
	n := min(p.weights.kernel.Rows, p.rows-first)
	a := p.packed.skipRows(p.weights, first)
	p.source.pack(p.weights, a, &p.backend.workers[worker], p.firstPacked+first, n)
}

// computeResident computes item i of the resident order: block i/panelRanges and range
// i%panelRanges.
func (p *product) computeResident(worker, i int) {
	first := i / p.panelRanges * p.blockRows
	w := &p.backend.workers[worker]
	n := min(p.blockRows, p.rows-first)
	var a operand
	if p.packedOnce {
		a = p.packed.skipRows(p.weights, first)
	} else {
		a = p.weights.newOperand(n, &w.operand)
		p.source.pack(p.weights, a, w, first, n)
	}
	begin, end := p.panelRange(i % p.panelRanges)
	for j := begin; j < end; j++ {
		p.finishTile(w, a, first, n, j)
	}
}

// computeStreamed computes item i of the streamed order: part i%rowParts of the rows and range
// i/rowParts, so that the items of a range follow each other and its weights are in the caches.
func (p *product) computeStreamed(worker, i int) {
	firstPanel, endPanel := p.panelRange(i / p.rowParts)
	k := p.weights.kernel
	part := i % p.rowParts
	rowPanels := (p.rows + k.Rows - 1) / k.Rows
	row := rowPanels * part / p.rowParts * k.Rows
	end := min(p.rows, rowPanels*(part+1)/p.rowParts*k.Rows)
	for ; row < end; row += p.blockRows {
		n := min(p.blockRows, end-row)
		for j := firstPanel; j < endPanel; j++ {
			a := p.packed.skipRows(p.weights, row)
			p.finishTile(&p.backend.workers[worker], a, p.firstPacked+row, n, j)
		}
	}
}

// panelRange returns range i of the panels, begin..end-1.
func (p *product) panelRange(i int) (begin, end int) {
	n := p.weights.panelCount()
	return n * i / p.panelRanges, n * (i + 1) / p.panelRanges
}

// finishTile computes and stores the tile of rows first..first+rows-1, the first of a, and panel j.
// Int8 tiles are also scaled, and are computed in parts that stay in the nearest cache meanwhile.
func (p *product) finishTile(w *worker, a operand, first, rows, j int) {
	step := rows
	if p.weights.precision == backend.Int8 {
		step = 8 * p.weights.kernel.Rows
	}
	for skipped := 0; skipped < rows; skipped += step {
		n := min(step, rows-skipped)
		p.fetchTile(first+skipped, n, j)
		tile := p.computeTile(w, a.skipRows(p.weights, skipped), n, j)
		p.storeTile(tile, first+skipped, n, j)
	}
}

// fetchTile prefetches what storeTile will read and write when the tile of rows first.. and panel j
// has been computed.
func (p *product) fetchTile(first, rows, j int) {
	k := p.weights.kernel
	start := first*p.stride + j*k.Columns
	columns := min(k.Columns, p.weights.out-j*k.Columns)
	if p.times != nil {
		k.Fetch(p.times[start:], p.stride, rows, columns)
	}
	k.Fetch(p.dst[start:], p.stride, rows, columns)
}

// computeTile computes the tile [rows, k.Columns] of an operand's first rows and panel j.
func (p *product) computeTile(w *worker, a operand, rows, j int) []float32 {
	n := p.weights.kernel.Columns
	tile := w.tile.get(p.blockRows * n)[:rows*n]
	p.weights.computeTile(tile, n, a, rows, j, w)
	return tile
}

// storeTile stores the tile [rows, k.Columns] of rows first.. and panel j, after bias and
// activation.
func (p *product) storeTile(tile []float32, first, rows, j int) {
	k := p.weights.kernel
	n := k.Columns
	start := first*p.stride + j*n
	columns := min(n, p.weights.out-j*n) // the last panel is padded
	bias := p.bias
	if bias != nil {
		bias = bias[j*n:][:columns]
	}
	if bias != nil && (p.act != backend.Identity || p.times != nil) {
		k.Store(tile, n, tile, n, bias, rows, columns, false)
		bias = nil
	}
	if p.act != backend.Identity {
		activations[p.act](p.backend.ops, tile, tile)
	}
	if p.times != nil {
		k.Times(tile, n, p.times[start:], p.stride, rows, columns)
	}
	k.Store(p.dst[start:], p.stride, tile, n, bias, rows, columns, p.add)
}

// Linear computes dst[:rows] = epilogue(x[:rows] W^T).
func (b *Backend) Linear(dst, x *tensor.Dense, rows int, w backend.Matrix, e backend.Epilogue) {
	backend.CheckLinear(dst, x, rows, w, e)
	b.mu.Lock()
	defer b.finishCall()
	if rows > 0 {
		b.runLinear(dst.Float32s(), x.Float32s(), rows, w.(*matrix), e)
	}
}

// setTarget sets the product's destination and epilogue.
func (p *product) setTarget(dst []float32, stride int, e backend.Epilogue) {
	p.dst = dst
	p.stride = stride
	p.bias = data(e.Bias)
	p.times = data(e.Times)
	p.act = e.Act
	p.add = e.Add
}

// rowSource packs rows of a matrix that are `stride` values apart.
type rowSource struct {
	values        []float32
	stride, width int
}

func (s *rowSource) pack(m *matrix, a operand, w *worker, first, rows int) {
	m.pack(a, s.values[first*s.stride:], s.stride, rows, w)
}
