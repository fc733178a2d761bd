package cpu

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

const (
	visitWords = 3 << 19 // logits that are held at a time, 6 MB
	visitItems = 4       // ranges of panels a thread
)

// HeadVisit passes on all logits of each row. It holds those of a few rows at a time.
func (b *Backend) HeadVisit(x *tensor.Dense, rows int, head backend.Head,
	visit func(row int, logits []float32)) {
	backend.CheckHead("HeadVisit", x, rows, head)
	b.mu.Lock()
	defer b.done()
	h := &b.heads
	h.prepare(x, head)
	h.visit = visit
	k := h.w.k
	group := max(1, min(headRows, visitWords/h.width())/k.Rows) * k.Rows
	for base := 0; base < rows; base += group {
		h.packRows(base, min(group, rows-base))
		h.logits.get(h.rows * h.width())
		h.ranges = min(h.w.panels(), visitItems*b.pool.Threads())
		b.pool.For(h.ranges, h.product)
		b.pool.For(h.rows, h.visitRow)
	}
	h.release()
}

// width returns the columns of all panels.
func (h *heads) width() int { return h.w.panels() * h.w.k.Columns }

func (h *heads) productPanels(worker, i int) {
	n, width := h.w.panels(), h.width()
	for j := n * i / h.ranges; j < n*(i+1)/h.ranges; j++ {
		h.w.tile(h.logits.data[j*h.w.k.Columns:], width, h.packed, h.rows, j, &h.b.workers[worker])
	}
}

func (h *heads) visitOne(_, row int) {
	x := h.logits.data[row*h.width():][:h.w.out]
	h.finishLogits(x, 0)
	h.visit(h.base+row, x)
}
