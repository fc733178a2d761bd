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

// heads runs output heads. Rows are packed once per pass. An item takes a block of rows through a
// chunk of columns, tile by tile, and reduces each tile while it is in the nearest caches; logits
// are not stored beyond it.
//
// Tiles and chunks do not depend on rows or threads, and each row's reductions are merged in the
// order of columns, so a row has the same bits in any batch. Sums within a tile are float32 in 16
// lanes; sums of tiles are float64.
type heads struct {
	b      *Backend
	x      rowSource
	w      *matrix
	h      backend.Head
	bias   []float32
	scale  float32
	base   int // first row of the pass
	rows   int // of the pass
	block  int // rows of a block
	blocks int
	chunks int
	packed operand
	memory buffer

	want   reduction
	parts  []partial // [headRows, chunks]
	tops   []float32 // [headRows, tiles]: what the tile's logits were shifted by
	sums   []float32 // [headRows, tiles]: sum exp(power*(logit-top))
	target []float64 // for each row of the pass, the rest of its uniform number in the tile
	tile   []int32   // for each row, the tile to draw from, -1 for none
	order  []int32   // rows of the pass, sorted by tile
	first  []int32   // [tiles+1] start of each tile in order
	draw   *backend.HeadDraw

	logits buffer // for HeadVisit: [rows, columns]
	visit  func(row int, logits []float32)
	ranges int

	pack, reduce, finish, drawTile, product, visitRow func(worker, i int)
	stats                                             *backend.HeadStats
}

// reduction says what to compute for a tile.
type reduction struct {
	power             float64 // for the moment and for the tiles' sums
	moment            bool    // sum exp(power*(logit-top)), not the sum for power 1
	dot, second, kept bool
}

// partial holds reductions over part of a row, shifted by the largest logit so far.
type partial struct {
	sum, moment, dot float64 // of e = exp(logit-top), exp(power*(logit-top)) and e*(logit-top)
	top              float32
	first, second    float32 // the largest logits, if needed
	arg              int32
}

func (h *heads) init(b *Backend) {
	h.b = b
	h.pack, h.reduce, h.finish = h.packPanel, h.reduceChunk, h.finishRow
	h.drawTile, h.product, h.visitRow = h.drawFrom, h.productPanels, h.visitOne
}

// prepare stores the arguments of a call.
func (h *heads) prepare(x *tensor.Dense, head backend.Head) {
	h.h, h.w, h.bias, h.scale = head, head.W.(*matrix), data(head.Bias), backend.HeadScale(head)
	h.x = rowSource{x.Float32s(), head.W.In(), head.W.In()}
	k := h.w.k
	if h.w.parts != nil {
		panic("cpu: a head of several matrices")
	}
	if headTile%k.Columns != 0 {
		panic("cpu: the head's tiles are not whole panels")
	}
	h.block = max(1, min(headBlock, k.Cache/(4*h.w.lines))/k.Rows) * k.Rows
	h.chunks = (head.Outcomes + headChunk - 1) / headChunk
}

// release drops the arguments.
func (h *heads) release() {
	runtime.KeepAlive(h.w)
	h.h, h.w, h.bias, h.x, h.draw, h.stats, h.visit = backend.Head{}, nil, nil, rowSource{}, nil, nil,
		nil
}

// packRows packs the rows of a pass.
func (h *heads) packRows(base, rows int) {
	h.base, h.rows = base, rows
	h.blocks = (rows + h.block - 1) / h.block
	h.packed = h.w.operand(rows, &h.memory)
	h.b.pool.For((rows+h.w.k.Rows-1)/h.w.k.Rows, h.pack)
}

func (h *heads) packPanel(worker, i int) {
	first := i * h.w.k.Rows
	a := h.packed.from(h.w, first)
	h.w.pack(a, h.x.x[(h.base+first)*h.x.stride:], h.x.stride, min(h.w.k.Rows, h.rows-first),
		&h.b.workers[worker])
}

func (h *heads) tiles() int { return (h.h.Outcomes + headTile - 1) / headTile }

// pass computes parts of all rows of a pass.
func (h *heads) pass() {
	h.parts = grown(h.parts, h.rows*h.chunks)
	if h.want.kept {
		h.tops, h.sums = grown(h.tops, h.rows*h.tiles()), grown(h.sums, h.rows*h.tiles())
	}
	h.b.pool.For(h.blocks*h.chunks, h.reduce)
}

// columns computes the products of `rows` rows, the first of a, with the columns of tile t. It
// returns the tile, whose rows are headTile apart, and the number of its columns that are outcomes.
func (h *heads) columns(w *worker, a operand, rows, t int) ([]float32, int) {
	k := h.w.k
	tile := w.tile.get(h.block * headTile)
	n := min(headTile, h.h.Outcomes-t*headTile)
	for j := 0; j < n; j += k.Columns {
		h.w.tile(tile[j:], headTile, a, rows, (t*headTile+j)/k.Columns, w)
	}
	return tile, n
}

// finishLogits adds the bias to a row of a tile and scales it, and returns the maximum.
func (h *heads) finishLogits(x []float32, column int) float32 {
	if h.bias == nil {
		return h.b.ops.Logits(x, nil, h.scale)
	}
	return h.b.ops.Logits(x, h.bias[column:], h.scale)
}

// reduceChunk takes block i%blocks through chunk i/blocks, so that blocks share the chunk's weights
// in the last-level cache.
func (h *heads) reduceChunk(worker, i int) {
	w, chunk := &h.b.workers[worker], i/h.blocks
	first := i % h.blocks * h.block
	rows := min(h.block, h.rows-first)
	a := h.packed.from(h.w, first)
	for r := range rows {
		h.parts[(first+r)*h.chunks+chunk] = partial{top: negInf, first: negInf, second: negInf, arg: -1}
	}
	const each = headChunk / headTile
	for t := chunk * each; t < min((chunk+1)*each, h.tiles()); t++ {
		tile, n := h.columns(w, a, rows, t)
		for r := range rows {
			x := tile[r*headTile:][:n]
			top := h.finishLogits(x, t*headTile)
			p := &h.parts[(first+r)*h.chunks+chunk]
			moment := h.add(p, x, t*headTile, top)
			if h.want.kept {
				at := (first+r)*h.tiles() + t
				h.tops[at], h.sums[at] = p.top, moment
			}
		}
	}
}

var negInf = float32(math.Inf(-1))

// add merges a tile of a row, whose largest logit is top, and returns its part of the moment.
func (h *heads) add(p *partial, x []float32, column int, top float32) (moment float32) {
	if top == negInf { // all are forbidden, or a NaN that the maximum missed
		for _, v := range x {
			if v != v {
				p.sum = math.NaN()
			}
		}
		return 0
	}
	if h.want.second && !(top <= p.second) {
		second, first := h.b.ops.Leaders(x, top)
		p.leaders(top, second, column+first)
	}
	if top > p.top {
		p.shift(top, h.want.power)
	}
	var sum, dot float32
	both := h.want.moment && h.want.power != 0 && !h.want.dot
	switch {
	case both:
		sum, moment = h.b.ops.SumExps(x, float32(h.want.power), p.top)
	case h.want.dot:
		sum, dot = h.b.ops.SumExpDot(x, p.top)
	default:
		sum = h.b.ops.SumExp(x, 1, p.top)
	}
	if h.want.moment && !both {
		moment = h.powers(x, p.top)
	}
	p.sum += float64(sum)
	p.dot += float64(dot)
	p.moment += float64(moment)
	if !h.want.moment {
		return sum
	}
	return moment
}

// powers returns sum exp(power*(x-top)). Forbidden outcomes add 0 even for power 0.
func (h *heads) powers(x []float32, top float32) (n float32) {
	if h.want.power != 0 {
		return h.b.ops.SumExp(x, float32(h.want.power), top)
	}
	for _, v := range x {
		if v != negInf {
			n++
		}
	}
	return n
}
