//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// These are the tiles of the head's first kernel. They have headTile columns or twice that, and
// reduce columns in the same order.
var headTiles = [...][]tile{
	backend.F32: {
		{register("unmask_head_f32_large"), 128, headTile, 256, 67584, 104830, 101520},
		{register("unmask_head_f32_small"), 32, headTile, 128, 21504, 56040, 33110},
	},
	backend.BF16: {
		{register("unmask_head_bf16_huge"), 128, 2 * headTile, 256, 98304, 35910, 40830},
		{register("unmask_head_bf16_large"), 128, headTile, 128, 67584, 35300, 15330},
		{register("unmask_head_bf16_small"), 32, headTile, 128, 81920, 30330, 5190},
		{register("unmask_head_bf16_wgmma256"), 256, headTile, 512, 196608, 19520, 25850},
		{register("unmask_head_bf16_wgmma128"), 128, headTile, 256, 98304, 23460, 12540},
	},
	backend.Int8: {
		{register("unmask_head_int8_huge"), 128, 2 * headTile, 256, 98304, 18200, 32170},
		{register("unmask_head_int8_large"), 128, headTile, 128, 67584, 11230, 12960},
		{register("unmask_head_int8_small"), 32, headTile, 128, 81920, 15200, 4230},
		{register("unmask_head_int8_wgmma256"), 256, headTile, 512, 196608, 12540, 16360},
		{register("unmask_head_int8_wgmma128"), 128, headTile, 256, 98304, 16820, 9710},
	},
}

var (
	headStatsKernel = register("unmask_head_stats")
	headPickKernel  = register("unmask_head_pick")
	headDrawKernels = [...]*kernel{
		backend.F32:  register("unmask_head_draw_f32"),
		backend.BF16: register("unmask_head_draw_bf16"),
		backend.Int8: register("unmask_head_draw_int8"),
	}
)

const (
	headTile  = 128  // columns that a block reduces at a time
	headCell  = 16   // columns whose logits are computed again for a draw
	headRows  = 2048 // rows of a pass over the weights; it bounds the memory of parts
	headWarps = 8    // rows of a block, for kernels with one warp per row

	visitSize = 32 << 20 // most bytes of logits that HeadVisit holds
)

// headMemory is the working memory of output heads.
type headMemory struct {
	// parts are the reductions of tiles, see headParts.
	parts scratchMemory

	// picks are the cells that rows draw from, see enqueueDraws.
	picks scratchMemory

	// stats and draws are the results of HeadStats and HeadSample.
	stats scratchMemory
	draws scratchMemory

	// logits and hostLogits are the rows that HeadVisit passes on, on the device and on the host.
	logits     scratchMemory
	hostLogits []float32

	visitor headVisit
}

// head is an output head in its kernels' form.
type head struct {
	weights *matrix
	bias    devicePtr // 0 for none
	spec    backend.Head
	scale   float32

	// tiles are the pieces of headTile columns that cover the outcomes.
	tiles int
}

// newHead returns a head with the addresses of its weights. The caller holds b.mu.
func (b *Backend) newHead(h backend.Head) head {
	return head{
		weights: h.W.(*matrix),
		bias:    b.addressOf(h.Bias),
		spec:    h,
		scale:   backend.HeadScale(h),
		tiles:   ceilDiv(h.Outcomes, headTile),
	}
}

// keepAlive keeps the tensors in the list's addresses alive until here.
func (h *head) keepAlive(x *tensor.Dense) {
	keepAlive(h.weights, h.spec.Bias, x)
}

// headParts are the reductions of the tiles of a pass, arrays [tiles, stride] of 4-byte numbers, a
// row in each column; 0 for those not needed. With e = exp(logit-top):
type headParts struct {
	top    devicePtr // the tile's largest logit
	sum    devicePtr // sum of e
	moment devicePtr // sum of e^power
	dot    devicePtr // sum of e*(logit-top)
	second devicePtr // the second largest logit
	arg    devicePtr // the column of the largest
	cell   devicePtr // [tiles*headTile/headCell, stride] each cell's part of the moment, or of the sum

	stride int
}

// neededParts lists the parts that a reduction needs besides top and sum.
type neededParts struct {
	// power is the exponent of the moment and the cells.
	power float64

	moment bool
	dot    bool
	second bool // and arg
	cell   bool
}

// passTo appends the kernels' parameters for parts.
func (p *headParts) passTo(c *call) *call {
	return c.pointer(p.top).pointer(p.sum).pointer(p.moment).pointer(p.dot).pointer(p.second).
		pointer(p.arg).pointer(p.cell).int(p.stride)
}

// layOutParts takes memory for the parts of rows.
func (b *Backend) layOutParts(h *head, rows int, want neededParts) (p headParts) {
	p.stride = roundUp(rows, 8)
	array := 4 * p.stride * h.tiles
	next := b.scratch(&b.heads.parts, array*(6+headTile/headCell))
	place := func(part *devicePtr, needed bool, arrays int) {
		if needed {
			*part = next
			next += devicePtr(arrays * array)
		}
	}
	place(&p.top, true, 1)
	place(&p.sum, true, 1)
	place(&p.moment, want.moment, 1)
	place(&p.dot, want.dot, 1)
	place(&p.second, want.second, 1)
	place(&p.arg, want.second, 1)
	place(&p.cell, want.cell, headTile/headCell)
	return p
}

// reduceTiles computes the parts of rows.
func (b *Backend) reduceTiles(h *head, x operand, rows int, want neededParts) headParts {
	p := b.layOutParts(h, rows, want)
	t := b.fastestTile(headTiles[h.weights.precision], rows, h.weights)
	p.passTo(b.begin(t.kernel, grid{x: t.blockCount(rows, h.spec.Outcomes)}, t.threads, t.shared)).
		product(x, rows, h.weights, h.bias).
		int(h.spec.Outcomes).float(h.scale).float(float32(want.power)).end()
	return p
}

// rowAddress returns the address of row i of x [*, width] float32.
func rowAddress(x devicePtr, i, width int) devicePtr { return x + devicePtr(4*i*width) }

// warpGrid returns the grid of kernels with one warp per row.
func warpGrid(rows int) grid { return grid{x: ceilDiv(rows, headWarps)} }

// statistics are arrays of results in device memory, 0 for those not needed.
type statistics struct {
	logMoment, entropy, p1, p2, logSum, arg devicePtr
}

// HeadStats computes reductions over p = softmax(logits) of each row in one pass over the weights.
// A row without a distribution gets NaN, and -1 in Arg; LogSum shows the reason.
func (b *Backend) HeadStats(x *tensor.Dense, rows int, head backend.Head, s *backend.HeadStats) {
	backend.CheckHeadStats(x, rows, head, s)
	if rows == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	h := b.newHead(head)
	next := b.scratch(&b.heads.stats, 8*6*rows)
	results := [...][]float64{s.LogMoment, s.Entropy, s.P1, s.P2, s.LogSum}
	var addresses [len(results)]devicePtr // 0 for those not needed
	for i, dst := range results {
		if dst != nil {
			addresses[i] = next
			next += devicePtr(8 * rows)
		}
	}
	r := statistics{
		logMoment: addresses[0],
		entropy:   addresses[1],
		p1:        addresses[2],
		p2:        addresses[3],
		logSum:    addresses[4],
	}
	if s.Arg != nil {
		r.arg = next
	}
	b.enqueueStats(&h, b.addressOf(x), rows, s.Beta, r)
	for i, dst := range results {
		if dst != nil {
			fetch(b, dst[:rows], addresses[i])
		}
	}
	if s.Arg != nil {
		fetch(b, s.Arg[:rows], r.arg)
	}
	b.sync()
	h.keepAlive(x)
}

// enqueueStats enqueues the reductions of all rows.
func (b *Backend) enqueueStats(h *head, x devicePtr, rows int, beta float64, r statistics) {
	want := neededParts{power: 1, dot: r.entropy != 0, second: r.p2 != 0 || r.arg != 0}
	if r.logMoment != 0 && beta != 1 { // the moment for 1 is the sum
		want.power = beta
		want.moment = true
	}
	for first := 0; first < rows; first += headRows {
		n := min(headRows, rows-first)
		p := b.reduceTiles(h, b.roundRows(rowAddress(x, first, h.weights.in), n, h.weights), n, want)
		offset := func(array devicePtr, bytes int) devicePtr {
			if array == 0 {
				return 0
			}
			return array + devicePtr(first*bytes)
		}
		p.passTo(b.begin(headStatsKernel, warpGrid(n), 32*headWarps, 0)).
			int(n).int(h.tiles).double(want.power).
			pointer(offset(r.logMoment, 8)).pointer(offset(r.entropy, 8)).
			pointer(offset(r.p1, 8)).pointer(offset(r.p2, 8)).
			pointer(offset(r.logSum, 8)).pointer(offset(r.arg, 4)).end()
	}
}

// HeadSample draws an outcome of each row by inverse CDF. One pass over the weights gives the
// weight of each cell of columns, which decides the row's cell; its logits are then computed again.
// A row without a distribution gets Token -1 and LogP NaN.
func (b *Backend) HeadSample(x *tensor.Dense, rows int, head backend.Head, d *backend.HeadDraw) {
	backend.CheckHeadSample(x, rows, head, d)
	if rows == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.newHead(head)
	logP := b.scratch(&b.heads.draws, 12*rows)
	token := logP + devicePtr(8*rows)
	b.enqueueDraws(&h, b.addressOf(x), rows, d.Power, upload(b, d.Uniform[:rows]), token, logP)
	fetch(b, d.Token[:rows], token)
	if d.LogP != nil {
		fetch(b, d.LogP[:rows], logP)
	}
	b.sync()
	h.keepAlive(x)
}

// enqueueDraws enqueues the draws of all rows: uniform [rows] float64, token [rows] int32 and logP
// [rows] float64 on the device.
func (b *Backend) enqueueDraws(h *head, x devicePtr, rows int, power float64, uniform, token,
	logP devicePtr) {
	want := neededParts{power: power, moment: power != 1, cell: true}
	for first := 0; first < rows; first += headRows {
		n := min(headRows, rows-first)
		o := b.roundRows(rowAddress(x, first, h.weights.in), n, h.weights)
		p := b.reduceTiles(h, o, n, want)

		// The row's cell, and what of its uniform number is left when the cells before it are
		// subtracted, in the unit in which the cell's weights are.
		logSum := b.scratch(&b.heads.picks, 24*headRows)
		remainder := logSum + 8*headRows
		picked := logSum + 16*headRows
		unit := picked + 4*headRows
		p.passTo(b.begin(headPickKernel, warpGrid(n), 32*headWarps, 0)).int(n).int(h.tiles).double(power).
			pointer(uniform + devicePtr(8*first)).pointer(logSum).pointer(picked).pointer(unit).
			pointer(remainder).end()

		c := b.begin(headDrawKernels[h.weights.precision], warpGrid(n), 32*headWarps, 0).pointer(o.data).
			pointer(h.weights.data).pointer(h.bias)
		if h.weights.precision == backend.F32 {
			c.int(h.weights.in).int(h.weights.stride / 4)
		} else {
			c.pointer(o.scale).pointer(h.weights.channelScales()).int(h.weights.stride)
		}
		c.int(n).int(h.spec.Outcomes).float(h.scale).float(float32(power)).
			pointer(logSum).pointer(picked).pointer(unit).pointer(remainder).
			pointer(token + devicePtr(4*first)).pointer(logP + devicePtr(8*first)).end()
	}
}

// headVisit passes rows to the caller of HeadVisit.
type headVisit struct {
	// first is the row of x that logits [rows, width] begin with.
	first  int
	width  int
	logits []float32

	visit func(row int, logits []float32)

	// item is visitRow, made once because a method value allocates.
	item func(worker, i int)
}

func (v *headVisit) visitRow(_, i int) { v.visit(v.first+i, v.logits[i*v.width:(i+1)*v.width]) }

// HeadVisit passes on all logits of each row. It holds those of a few rows at a time.
func (b *Backend) HeadVisit(x *tensor.Dense, rows int, head backend.Head,
	f func(row int, logits []float32)) {
	backend.CheckHead("HeadVisit", x, rows, head)
	if rows == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	h := b.newHead(head)
	v := &b.heads.visitor
	if v.item == nil {
		v.item = v.visitRow
	}
	v.visit = f
	v.width = h.weights.out
	group := min(max(1, visitSize/(4*v.width)), rows)
	b.heads.hostLogits = slices.Grow(b.heads.hostLogits[:0], group*v.width)[:group*v.width]
	logits := b.scratch(&b.heads.logits, 4*group*v.width)
	for v.first = 0; v.first < rows; v.first += group {
		n := min(group, rows-v.first)
		input := rowAddress(b.addressOf(x), v.first, h.weights.in)
		b.beginLinear(input, n, h.weights, v.width, h.bias, backend.Identity, false, h.scale).
			pointer(logits).pointer(0).end()
		v.logits = b.heads.hostLogits[:n*v.width]
		fetch(b, v.logits, logits)
		b.sync()
		b.products.workers().For(n, v.item)
	}
	v.visit = nil
	v.logits = nil
	h.keepAlive(x)
}
