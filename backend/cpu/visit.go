package cpu

import (
	"gorgonia.org/tensor"

	"unmask/backend"
)

const (
	visitWords = 3 << 19 // logits that are held at a time, 6 MB
	visitItems = 4       // ranges of panels for each thread
)

// HeadVisit calls visit with all logits of each row. It holds those of a few rows at a time.
func (b *Backend) HeadVisit(x *tensor.Dense, rows int, head backend.Head,
	visit func(row int, logits []float32)) {
	backend.CheckHead("HeadVisit", x, rows, head)
	b.mu.Lock()
	defer b.finishCall()
	h := &b.head
	h.prepare(x, head)
	h.visit = visit
	k := h.weights.kernel
	group := max(1, min(headRows, visitWords/h.paddedWidth())/k.Rows) * k.Rows
	for base := 0; base < rows; base += group {
		h.packRows(base, min(group, rows-base))
		h.logits.get(h.rows * h.paddedWidth())
		h.ranges = min(h.weights.panelCount(), visitItems*b.pool.Threads())
		b.pool.For(h.ranges, h.productFunc)
		b.pool.For(h.rows, h.visitFunc)
	}
	h.dropArguments()
}

// paddedWidth returns the columns of all panels.
func (h *headJob) paddedWidth() int { return h.weights.panelCount() * h.weights.kernel.Columns }

// computePanels computes the logits of range i of the panels.
func (h *headJob) computePanels(worker, i int) {
	n := h.weights.panelCount()
	width := h.paddedWidth()
	for j := n * i / h.ranges; j < n*(i+1)/h.ranges; j++ {
		tile := h.logits.data[j*h.weights.kernel.Columns:]
		h.weights.computeTile(tile, width, h.packed, h.rows, j, &h.backend.workers[worker])
	}
}

// visitRow finishes the logits of a row of the pass and passes them on.
func (h *headJob) visitRow(_, row int) {
	x := h.logits.data[row*h.paddedWidth():][:h.weights.out]
	h.finishLogits(x, 0)
	h.visit(h.firstRow+row, x)
}
