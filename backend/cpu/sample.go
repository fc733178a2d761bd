package cpu

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// HeadSample draws an outcome of each row by inverse CDF. One pass over the weights gives the sum
// of each tile of columns, which decides the tile. The tile's logits are then computed again, for
// all rows that drew it together. A row without a distribution gets Token -1 and LogP NaN.
func (b *Backend) HeadSample(x *tensor.Dense, rows int, head backend.Head, d *backend.HeadDraw) {
	backend.CheckHeadSample(x, rows, head, d)
	b.mu.Lock()
	defer b.done()
	h := &b.heads
	h.prepare(x, head)
	h.draw = d
	h.want = reduction{power: d.Power, moment: d.Power != 1, kept: true}
	for base := 0; base < rows; base += headRows {
		h.packRows(base, min(headRows, rows-base))
		h.pass()
		h.chooseTiles()
		b.pool.For(h.tiles(), h.drawTile)
	}
	h.release()
}

// chooseTiles finds each row's tile and sorts the rows by it.
func (h *heads) chooseTiles() {
	tiles := h.tiles()
	h.target, h.tile, h.order = grown(h.target, h.rows), grown(h.tile, h.rows), grown(h.order, h.rows)
	h.first = grown(h.first, tiles+2)
	clear(h.first)
	for row := range h.rows {
		h.chooseTile(row)
		h.first[h.tile[row]+2]++ // rows without a tile count as tile -1
	}
	for t := range tiles {
		h.first[t+2] += h.first[t+1]
	}
	// Now tile t begins at first[t+1]. Placing a row advances that, in the end to where tile t+1
	// begins.
	for row, t := range h.tile {
		h.order[h.first[t+1]] = int32(row)
		h.first[t+1]++
	}
}

// chooseTile goes through the tiles' sums, each relative to its row's largest logit.
func (h *heads) chooseTile(row int) {
	p, d, i := h.total(row), h.draw, h.base+row
	logSum := p.logSum()
	h.tile[row], d.Token[i] = -1, -1
	if d.LogP != nil {
		d.LogP[i] = math.NaN()
	}
	if !finite(logSum) {
		return
	}
	if d.LogP != nil {
		d.LogP[i] = logSum // the token's logit is added later
	}
	moment := p.sum
	if h.want.moment {
		moment = p.moment
	}
	at := row * h.tiles()
	left, unit, top := d.Uniform[i]*moment, 1.0, p.top
	for t := range h.tiles() {
		sum := h.sums[at+t]
		if sum == 0 {
			continue
		}
		if next := h.tops[at+t]; next != top {
			top, unit = next, math.Exp(d.Power*(float64(next)-float64(p.top)))
		}
		if unit == 0 {
			continue
		}
		weight := float64(sum) * unit
		// the last tile is taken if rounding leaves a rest
		h.tile[row], h.target[row] = int32(t), min(left, weight)/unit
		if weight > left {
			return
		}
		left -= weight
	}
}

// drawRows is the number of rows of a tile computed together.
const drawRows = 16

// drawFrom draws the tokens of all rows in tile t.
func (h *heads) drawFrom(worker, t int) {
	rows := h.order[h.first[t]:h.first[t+1]]
	w, width := &h.b.workers[worker], h.x.width
	for ; len(rows) > 0; rows = rows[min(drawRows, len(rows)):] {
		n := min(drawRows, len(rows), h.block)
		x := w.row.get(drawRows * width)
		for r := range n {
			copy(x[r*width:(r+1)*width], h.x.x[(h.base+int(rows[r]))*h.x.stride:])
		}
		a := h.w.operand(n, &w.a)
		h.w.pack(a, x, width, n, w)
		tile, columns := h.columns(w, a, n, t)
		weights := w.band.get(headTile)[:columns]
		for r := range n {
			logits := tile[r*headTile:][:columns]
			h.finishLogits(logits, t*headTile)
			h.drawOne(int(rows[r]), t, logits, weights)
		}
	}
}

// drawOne finds the token of a row among its tile's logits.
func (h *heads) drawOne(row, t int, logits, weights []float32) {
	d, i := h.draw, h.base+row
	if h.want.power == 0 {
		for j, v := range logits {
			weights[j] = 1
			if v == negInf {
				weights[j] = 0
			}
		}
	} else {
		h.b.ops.Weights(weights, logits, float32(h.want.power), h.tops[row*h.tiles()+t])
	}
	token, sum := -1, 0.0
	for j, v := range weights {
		if v == 0 {
			continue
		}
		token = j // the last one is taken if rounding leaves a rest
		if sum += float64(v); sum > h.target[row] {
			break
		}
	}
	d.Token[i] = int32(t*headTile + token)
	if d.LogP != nil {
		d.LogP[i] = float64(logits[token]) - d.LogP[i]
	}
}
