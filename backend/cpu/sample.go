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
	defer b.finishCall()
	h := &b.head
	h.prepare(x, head)
	h.draw = d
	h.wanted = reduction{power: d.Power, moment: d.Power != 1, keepsTiles: true}
	for base := 0; base < rows; base += headRows {
		h.packRows(base, min(headRows, rows-base))
		h.reduceRows()
		h.chooseTiles()
		b.pool.For(h.tileCount(), h.drawFunc)
	}
	h.dropArguments()
}

// chooseTiles finds each row's tile and sorts the rows by it.
func (h *headJob) chooseTiles() {
	tiles := h.tileCount()
	h.remainders = resized(h.remainders, h.rows)
	h.drawnTiles = resized(h.drawnTiles, h.rows)
	h.rowOrder = resized(h.rowOrder, h.rows)
	h.tileStarts = resized(h.tileStarts, tiles+2)
	clear(h.tileStarts)
	for row := range h.rows {
		h.chooseTile(row)
		h.tileStarts[h.drawnTiles[row]+2]++ // rows without a tile count as tile -1
	}
	for t := range tiles {
		h.tileStarts[t+2] += h.tileStarts[t+1]
	}
	// Now tile t begins at first[t+1]. Placing a row advances that, in the end to where tile t+1
	// begins.
	for row, t := range h.drawnTiles {
		h.rowOrder[h.tileStarts[t+1]] = int32(row)
		h.tileStarts[t+1]++
	}
}

// chooseTile finds the tile in which a row's uniform number lies. It goes through the tiles' sums,
// each of which is relative to the largest logit of its row up to that tile.
func (h *headJob) chooseTile(row int) {
	p := h.mergeParts(row)
	d := h.draw
	i := h.firstRow + row
	logSum := p.logSum()
	h.drawnTiles[row] = -1
	d.Token[i] = -1
	if d.LogP != nil {
		d.LogP[i] = math.NaN()
	}
	if !isFinite(logSum) {
		return
	}
	if d.LogP != nil {
		d.LogP[i] = logSum // drawRow subtracts it from the token's logit
	}

	moment := p.sum
	if h.wanted.moment {
		moment = p.moment
	}
	tops := h.tileTops[row*h.tileCount():]
	sums := h.tileSums[row*h.tileCount():]
	remainder := d.Uniform[i] * moment
	unit := 1.0 // exp(power*(top-p.top)), in which the tile's sum is
	top := p.top
	for t := range h.tileCount() {
		sum := sums[t]
		if sum == 0 {
			continue
		}
		if tops[t] != top {
			top = tops[t]
			unit = math.Exp(d.Power * (float64(top) - float64(p.top)))
		}
		if unit == 0 {
			continue
		}
		weight := float64(sum) * unit
		// the last tile is taken if rounding leaves a remainder behind it
		h.drawnTiles[row] = int32(t)
		h.remainders[row] = min(remainder, weight) / unit
		if weight > remainder {
			return
		}
		remainder -= weight
	}
}

// drawRows is the most rows of a tile that are computed together.
const drawRows = 16

// drawTile draws the tokens of all rows in tile t.
func (h *headJob) drawTile(worker, t int) {
	rows := h.rowOrder[h.tileStarts[t]:h.tileStarts[t+1]]
	w := &h.backend.workers[worker]
	width := h.x.width
	for ; len(rows) > 0; rows = rows[min(drawRows, len(rows)):] {
		n := min(drawRows, len(rows), h.blockRows)
		x := w.row.get(drawRows * width)
		for r := range n {
			copy(x[r*width:(r+1)*width], h.x.values[(h.firstRow+int(rows[r]))*h.x.stride:])
		}
		a := h.weights.newOperand(n, &w.operand)
		h.weights.pack(a, x, width, n, w)
		tile, columns := h.computeTile(w, a, n, t)
		weights := w.band.get(headTile)[:columns]
		for r := range n {
			logits := tile[r*headTile:][:columns]
			h.finishLogits(logits, t*headTile)
			h.drawRow(int(rows[r]), t, logits, weights)
		}
	}
}

// drawRow finds the token of a row among its tile's logits.
func (h *headJob) drawRow(row, t int, logits, weights []float32) {
	d := h.draw
	i := h.firstRow + row
	if h.wanted.power == 0 {
		for j, v := range logits {
			weights[j] = 1
			if v == negInf {
				weights[j] = 0
			}
		}
	} else {
		h.backend.ops.Weights(weights, logits, float32(h.wanted.power), h.tileTops[row*h.tileCount()+t])
	}

	token := -1
	sum := 0.0
	for j, v := range weights {
		if v == 0 {
			continue
		}
		token = j // the last one is taken if rounding leaves a remainder behind it
		sum += float64(v)
		if sum > h.remainders[row] {
			break
		}
	}
	d.Token[i] = int32(t*headTile + token)
	if d.LogP != nil {
		d.LogP[i] = float64(logits[token]) - d.LogP[i]
	}
}
