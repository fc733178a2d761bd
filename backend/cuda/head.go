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
		backend.F32: register("unmask_head_draw_f32"), backend.BF16: register("unmask_head_draw_bf16"),
		backend.Int8: register("unmask_head_draw_int8"),
	}
)

const (
	headTile  = 128  // columns that a block reduces at a time
	headCell  = 16   // columns whose logits are computed again for a draw
	headRows  = 2048 // rows of a pass over the weights; it bounds the memory of parts
	headWarps = 8    // rows of a block, for kernels with one warp per row
	visitSize = 32 << 20
)

// heads is the working memory of output heads.
type heads struct {
	parts, picks, stats, draws, logits memory
	visited                            []float32
	visit                              visit
}

// head is an output head in its kernels' form.
type head struct {
	w     *matrix
	bias  devicePtr
	h     backend.Head
	scale float32
	tiles int
}

func (b *Backend) headOf(h backend.Head) head {
	return head{h.W.(*matrix), b.address(h.Bias), h, backend.HeadScale(h),
		(h.Outcomes + headTile - 1) / headTile}
}

// release keeps the tensors in the list's addresses alive until here.
func (h *head) release(x *tensor.Dense) {
	keep(h.w, h.h.Bias, x)
}

// parts are the reductions of the tiles of a pass, arrays [tiles, stride]; 0 for those not needed.
type parts struct {
	top, sum, moment, dot, second, arg, cell devicePtr
	stride                                   int
}

// wanted lists the parts that a reduction needs.
type wanted struct {
	power                     float64 // exponent of the moment and the cells
	moment, dot, second, cell bool
}

// pass appends the kernels' parameters for parts.
func (p *parts) pass(c *call) *call {
	return c.pointer(p.top).pointer(p.sum).pointer(p.moment).pointer(p.dot).pointer(p.second).
		pointer(p.arg).pointer(p.cell).int(p.stride)
}

// layout takes memory for the parts of rows.
func (b *Backend) layout(h *head, rows int, want wanted) (p parts) {
	p.stride = roundUp(rows, 8)
	array := 4 * p.stride * h.tiles
	at := b.scratch(&b.heads.parts, array*(6+headTile/headCell))
	take := func(to *devicePtr, wanted bool, n int) {
		if wanted {
			*to = at
			at += devicePtr(n * array)
		}
	}
	take(&p.top, true, 1)
	take(&p.sum, true, 1)
	take(&p.moment, want.moment, 1)
	take(&p.dot, want.dot, 1)
	take(&p.second, want.second, 1)
	take(&p.arg, want.second, 1)
	take(&p.cell, want.cell, headTile/headCell)
	return p
}

// reduce computes the parts of rows.
func (b *Backend) reduce(h *head, x operand, rows int, want wanted) parts {
	p := b.layout(h, rows, want)
	t := b.best(headTiles[h.w.as], rows, h.w)
	p.pass(b.begin(t.kernel, grid{x: t.blocks(rows, h.h.Outcomes)}, t.threads, t.shared)).
		product(x, rows, h.w, h.bias).int(h.h.Outcomes).float(h.scale).float(float32(want.power)).end()
	return p
}

// row returns the address of row i of x.
func rowAt(x devicePtr, i, width int) devicePtr { return x + devicePtr(4*i*width) }

// warps returns the grid of kernels with one warp per row.
func warps(rows int) grid { return grid{x: (rows + headWarps - 1) / headWarps} }

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
	h := b.headOf(head)
	next := b.scratch(&b.heads.stats, 8*6*rows)
	results := [...][]float64{s.LogMoment, s.Entropy, s.P1, s.P2, s.LogSum}
	var at [len(results)]devicePtr // 0 for those not needed
	for i, dst := range results {
		if dst != nil {
			at[i] = next
			next += devicePtr(8 * rows)
		}
	}
	r := statistics{logMoment: at[0], entropy: at[1], p1: at[2], p2: at[3], logSum: at[4]}
	if s.Arg != nil {
		r.arg = next
	}
	b.stats(&h, b.address(x), rows, s.Beta, r)
	for i, dst := range results {
		if dst != nil {
			fetch(b, dst[:rows], at[i])
		}
	}
	if s.Arg != nil {
		fetch(b, s.Arg[:rows], r.arg)
	}
	b.sync()
	h.release(x)
}

// stats enqueues the reductions of all rows.
func (b *Backend) stats(h *head, x devicePtr, rows int, beta float64, r statistics) {
	want := wanted{power: 1, dot: r.entropy != 0, second: r.p2 != 0 || r.arg != 0}
	if r.logMoment != 0 && beta != 1 {
		want.power, want.moment = beta, true
	}
	for first := 0; first < rows; first += headRows {
		n := min(headRows, rows-first)
		p := b.reduce(h, b.round(rowAt(x, first, h.w.in), n, h.w), n, want)
		part := func(array devicePtr, bytes int) devicePtr {
			if array == 0 {
				return 0
			}
			return array + devicePtr(first*bytes)
		}
		p.pass(b.begin(headStatsKernel, warps(n), 32*headWarps, 0)).int(n).int(h.tiles).
			double(want.power).
			pointer(part(r.logMoment, 8)).pointer(part(r.entropy, 8)).pointer(part(r.p1, 8)).
			pointer(part(r.p2, 8)).
			pointer(part(r.logSum, 8)).pointer(part(r.arg, 4)).end()
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
	h := b.headOf(head)
	logP := b.scratch(&b.heads.draws, 12*rows)
	token := logP + devicePtr(8*rows)
	b.sample(&h, b.address(x), rows, d.Power, upload(b, d.Uniform[:rows]), token, logP)
	fetch(b, d.Token[:rows], token)
	if d.LogP != nil {
		fetch(b, d.LogP[:rows], logP)
	}
	b.sync()
	h.release(x)
}

// sample enqueues the draws of all rows: uniform [rows] float64, token [rows] int32 and logP [rows]
// float64 on the device.
func (b *Backend) sample(h *head, x devicePtr, rows int, power float64, uniform, token,
	logP devicePtr) {
	want := wanted{power: power, moment: power != 1, cell: true}
	for first := 0; first < rows; first += headRows {
		n := min(headRows, rows-first)
		o := b.round(rowAt(x, first, h.w.in), n, h.w)
		p := b.reduce(h, o, n, want)
		logSum := b.scratch(&b.heads.picks, 24*headRows)
		rest, picked := logSum+8*headRows, logSum+16*headRows
		unit := picked + 4*headRows
		p.pass(b.begin(headPickKernel, warps(n), 32*headWarps, 0)).int(n).int(h.tiles).double(power).
			pointer(uniform + devicePtr(8*first)).pointer(logSum).pointer(picked).pointer(unit).
			pointer(rest).end()
		c := b.begin(headDrawKernels[h.w.as], warps(n), 32*headWarps, 0).pointer(o.data).
			pointer(h.w.data).pointer(h.bias)
		if h.w.as == backend.F32 {
			c.int(h.w.in).int(h.w.stride / 4)
		} else {
			c.pointer(o.scale).pointer(h.w.channels()).int(h.w.stride)
		}
		c.int(n).int(h.h.Outcomes).float(h.scale).float(float32(power)).pointer(logSum).pointer(picked).
			pointer(unit).pointer(rest).
			pointer(token + devicePtr(4*first)).pointer(logP + devicePtr(8*first)).end()
	}
}

// visit passes rows to the caller of HeadVisit.
type visit struct {
	first, width int
	logits       []float32
	f            func(row int, logits []float32)
	item         func(worker, i int)
}

func (v *visit) row(_, i int) { v.f(v.first+i, v.logits[i*v.width:(i+1)*v.width]) }

// HeadVisit passes on all logits of each row. It holds those of a few rows at a time.
func (b *Backend) HeadVisit(x *tensor.Dense, rows int, head backend.Head,
	f func(row int, logits []float32)) {
	backend.CheckHead("HeadVisit", x, rows, head)
	if rows == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	h, v := b.headOf(head), &b.heads.visit
	if v.item == nil {
		v.item = v.row
	}
	v.f, v.width = f, h.w.out
	group := min(max(1, visitSize/(4*v.width)), rows)
	b.heads.visited = slices.Grow(b.heads.visited[:0], group*v.width)[:group*v.width]
	device := b.scratch(&b.heads.logits, 4*group*v.width)
	for v.first = 0; v.first < rows; v.first += group {
		n := min(group, rows-v.first)
		b.linear(rowAt(b.address(x), v.first, h.w.in), n, h.w, h.w.out, h.bias, backend.Identity, false,
			h.scale).pointer(device).pointer(0).end()
		v.logits = b.heads.visited[:n*v.width]
		fetch(b, v.logits, device)
		b.sync()
		b.products.workers().For(n, v.item)
	}
	v.f, v.logits = nil, nil
	h.release(x)
}
