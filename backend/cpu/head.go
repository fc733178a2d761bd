package cpu

import (
	"math"
	"runtime"

	"gorgonia.org/tensor"

	"unmask/backend"
)

const (
	headTile  = 192           // columns whose logits are held at a time for a block of rows
	headChunk = 4 * headTile  // columns of an item
	headBlock = 64            // rows of a block
	headRows  = 8 * headBlock // rows of a pass over the weights; it bounds the memory
)

// headJob runs output heads. Rows are packed once per pass. An item takes a block of rows through a
// chunk of columns, tile by tile, and reduces each tile while it is in the nearest caches; logits
// are not stored beyond it.
//
// Tiles and chunks do not depend on rows or threads, and each row's reductions are merged in the
// order of columns, so a row has the same bits in any batch. Sums within a tile are float32 in 16
// lanes; sums of tiles are float64.
type headJob struct {
	backend *Backend

	// the arguments of the call; stats, draw or visit is that of one of the three kernels
	x       rowSource
	weights *matrix
	spec    backend.Head
	bias    []float32
	scale   float32
	stats   *backend.HeadStats
	draw    *backend.HeadDraw
	visit   func(row int, logits []float32)

	// The rows of a pass over the weights are firstRow..firstRow+rows-1 of x, in blocks of
	// blockRows. packed has them all.
	firstRow  int
	rows      int
	blockRows int
	blocks    int
	chunks    int
	packed    operand
	memory    buffer

	wanted reduction
	parts  []partial // [rows, chunks]

	// With wanted.keepsTiles, [rows, tiles]: what the tile's logits were shifted by, and the sum of
	// exp(power*(logit-top)).
	tileTops []float32
	tileSums []float32

	// For HeadSample: for each row, the tile to draw from, -1 for none, and what of its uniform
	// number, in units of the tile's sum, is left when the tiles before it are subtracted.
	drawnTiles []int32
	remainders []float64

	// rowOrder are the rows of the pass, sorted by tile. Tile t begins at tileStarts[t].
	rowOrder   []int32
	tileStarts []int32

	// For HeadVisit: logits [rows, columns], computed in ranges of panels.
	logits buffer
	ranges int

	// methods, made values once because a method value allocates
	packFunc    func(worker, i int)
	reduceFunc  func(worker, i int)
	finishFunc  func(worker, i int)
	drawFunc    func(worker, i int)
	productFunc func(worker, i int)
	visitFunc   func(worker, i int)
}

// reduction says what to compute for a tile besides its sum of exponentials.
type reduction struct {
	// power is that of the moment and of the tiles' sums.
	power float64

	// moment asks for the sum of exp(power*(logit-top)), for a power other than 1.
	moment bool

	// dot asks for the sum of e*(logit-top), second for the two largest logits.
	dot    bool
	second bool

	// keepsTiles asks for tileTops and tileSums.
	keepsTiles bool
}

// partial holds reductions over part of a row, shifted by the largest logit so far: without the
// shift, exponentials would overflow.
type partial struct {
	sum    float64 // of e = exp(logit-top)
	moment float64 // of exp(power*(logit-top))
	dot    float64 // of e*(logit-top)
	top    float32

	// first and second are the largest logits, arg the column of first, if they are wanted.
	first  float32
	second float32
	arg    int32
}

func (h *headJob) init(b *Backend) {
	h.backend = b
	h.packFunc = h.packPanel
	h.reduceFunc = h.reduceChunk
	h.finishFunc = h.finishRow
	h.drawFunc = h.drawTile
	h.productFunc = h.computePanels
	h.visitFunc = h.visitRow
}

// prepare stores the arguments of a call.
func (h *headJob) prepare(x *tensor.Dense, head backend.Head) {
	h.spec = head
	h.weights = head.W.(*matrix)
	h.bias = data(head.Bias)
	h.scale = backend.HeadScale(head)
	h.x = rowSource{x.Float32s(), head.W.In(), head.W.In()}
	k := h.weights.kernel
	if h.weights.parts != nil {
		panic("cpu: a head of several matrices")
	}
	if headTile%k.Columns != 0 {
		panic("cpu: the head's tiles are not whole panels")
	}
	h.blockRows = max(1, min(headBlock, k.Cache/(4*h.weights.lines))/k.Rows) * k.Rows
	h.chunks = (head.Outcomes + headChunk - 1) / headChunk
}

// dropArguments forgets the arguments, so that the backend does not keep them alive.
func (h *headJob) dropArguments() {
	runtime.KeepAlive(h.weights)
	h.spec = backend.Head{}
	h.weights = nil
	h.bias = nil
	h.x = rowSource{}
	h.draw = nil
	h.stats = nil
	h.visit = nil
}

// packRows packs the rows of a pass, firstRow..firstRow+rows-1.
func (h *headJob) packRows(firstRow, rows int) {
	h.firstRow = firstRow
	h.rows = rows
	h.blocks = (rows + h.blockRows - 1) / h.blockRows
	h.packed = h.weights.newOperand(rows, &h.memory)
	h.backend.pool.For((rows+h.weights.kernel.Rows-1)/h.weights.kernel.Rows, h.packFunc)
}

// packPanel packs the i-th panel of the job's rows for the products with the head.
func (h *headJob) packPanel(worker, i int) {
	first := i * h.weights.kernel.Rows
	n := min(h.weights.kernel.Rows, h.rows-first)
	x := h.x.values[(h.firstRow+first)*h.x.stride:]
	a := h.packed.skipRows(h.weights, first)
	h.weights.pack(a, x, h.x.stride, n, &h.backend.workers[worker])
}

// tileCount returns the number of tiles that cover the outcomes.
func (h *headJob) tileCount() int { return (h.spec.Outcomes + headTile - 1) / headTile }

// reduceRows computes parts of all rows of a pass.
func (h *headJob) reduceRows() {
	h.parts = resized(h.parts, h.rows*h.chunks)
	if h.wanted.keepsTiles {
		h.tileTops = resized(h.tileTops, h.rows*h.tileCount())
		h.tileSums = resized(h.tileSums, h.rows*h.tileCount())
	}
	h.backend.pool.For(h.blocks*h.chunks, h.reduceFunc)
}

// computeTile computes the products of `rows` rows, the first of a, with the columns of tile t. It
// returns the tile, whose rows are headTile apart, and the number of its columns that are outcomes.
func (h *headJob) computeTile(w *worker, a operand, rows, t int) ([]float32, int) {
	k := h.weights.kernel
	tile := w.tile.get(h.blockRows * headTile)
	n := min(headTile, h.spec.Outcomes-t*headTile)
	for j := 0; j < n; j += k.Columns {
		h.weights.computeTile(tile[j:], headTile, a, rows, (t*headTile+j)/k.Columns, w)
	}
	return tile, n
}

// finishLogits adds the bias to a row of a tile and scales it, and returns the maximum.
func (h *headJob) finishLogits(x []float32, column int) float32 {
	if h.bias == nil {
		return h.backend.ops.Logits(x, nil, h.scale)
	}
	return h.backend.ops.Logits(x, h.bias[column:], h.scale)
}

// reduceChunk takes block i%blocks through chunk i/blocks, so that blocks share the chunk's weights
// in the last-level cache.
func (h *headJob) reduceChunk(worker, i int) {
	w := &h.backend.workers[worker]
	chunk := i / h.blocks
	first := i % h.blocks * h.blockRows
	rows := min(h.blockRows, h.rows-first)
	a := h.packed.skipRows(h.weights, first)
	for r := range rows {
		h.parts[(first+r)*h.chunks+chunk] = partial{top: negInf, first: negInf, second: negInf, arg: -1}
	}

	const chunkTiles = headChunk / headTile
	for t := chunk * chunkTiles; t < min((chunk+1)*chunkTiles, h.tileCount()); t++ {
		tile, n := h.computeTile(w, a, rows, t)
		for r := range rows {
			x := tile[r*headTile:][:n]
			top := h.finishLogits(x, t*headTile)
			p := &h.parts[(first+r)*h.chunks+chunk]
			moment := h.addTile(p, x, t*headTile, top)
			if h.wanted.keepsTiles {
				index := (first+r)*h.tileCount() + t
				h.tileTops[index] = p.top
				h.tileSums[index] = moment
			}
		}
	}
}

var negInf = float32(math.Inf(-1))

// addTile merges a tile x of a row into p and returns the tile's part of the moment, or of the sum
// without a moment. top is the tile's largest logit, column its first column.
func (h *headJob) addTile(p *partial, x []float32, column int, top float32) (moment float32) {
	if top == negInf { // all are forbidden, or a NaN that the maximum missed
		for _, v := range x {
			if v != v {
				p.sum = math.NaN()
			}
		}
		return 0
	}
	if h.wanted.second && !(top <= p.second) {
		second, first := h.backend.ops.Leaders(x, top)
		p.addLeaders(top, second, column+first)
	}
	if top > p.top {
		p.rescale(top, h.wanted.power)
	}

	var sum, dot float32
	inOnePass := h.wanted.moment && h.wanted.power != 0 && !h.wanted.dot
	switch {
	case inOnePass:
		sum, moment = h.backend.ops.SumExps(x, float32(h.wanted.power), p.top)
	case h.wanted.dot:
		sum, dot = h.backend.ops.SumExpDot(x, p.top)
	default:
		sum = h.backend.ops.SumExp(x, 1, p.top)
	}
	if h.wanted.moment && !inOnePass {
		moment = h.sumPowers(x, p.top)
	}
	p.sum += float64(sum)
	p.dot += float64(dot)
	p.moment += float64(moment)
	if !h.wanted.moment {
		return sum
	}
	return moment
}

// sumPowers returns sum exp(power*(x-top)). Forbidden outcomes add 0 even for power 0.
func (h *headJob) sumPowers(x []float32, top float32) (n float32) {
	if h.wanted.power != 0 {
		return h.backend.ops.SumExp(x, float32(h.wanted.power), top)
	}
	for _, v := range x {
		if v != negInf {
			n++
		}
	}
	return n
}
