package cpu

import (
	"fmt"
	"math"

	"unmask/backend"
	"unmask/internal/simd/gemm"
)

// matrix is a weight matrix in panels of the kernel's columns. An int8 panel is followed by its
// columns' scales and the offsets (int32) of their sums, so that these are fetched with the
// weights.
type matrix struct {
	out, in int
	as      backend.Precision
	k       *gemm.Kernel
	lines   int // words along the depth
	memory  storage
	blocks  *gemm.Blocks // for block formats, otherwise nil
	parts   []*matrix    // matrices with the same input, whose outputs are in order
}

func (m *matrix) Out() int                     { return m.out }
func (m *matrix) In() int                      { return m.in }
func (m *matrix) Precision() backend.Precision { return m.as }

// Bytes returns the memory of all parts.
func (m *matrix) Bytes() int {
	n := 4 * len(m.memory.data)
	for _, p := range m.parts {
		n += p.Bytes()
	}
	return n
}

// panels returns the number of panels; the last is padded with zero columns.
func (m *matrix) panels() int { return (m.out + m.k.Columns - 1) / m.k.Columns }

// sizePanel returns the words of a panel and of what follows it.
func (m *matrix) sizePanel() int {
	if m.blocks != nil {
		return m.blocks.SizeB(m.in)
	}
	n := m.k.SizeB(m.in)
	if m.k.Quantised() {
		n += 2 * m.k.Columns
	}
	return n
}

// panel returns packed panel j, followed by scales and offsets.
func (m *matrix) panel(j int) []float32 {
	n := m.sizePanel()
	return m.memory.data[j*n : (j+1)*n]
}

// scales returns the scales of a panel's columns, and their offsets.
func (m *matrix) scales(panel []float32) (scale, offset []float32) {
	n := m.k.Columns
	at := len(panel) - 2*n
	return panel[at : at+n], panel[at+n:]
}

var formats = [...]gemm.Format{backend.F32: gemm.F32, backend.BF16: gemm.BF16,
	backend.Int8: gemm.Int8}

// maxInt8 is the depth from which sums of int8 products could overflow int32.
const maxInt8 = math.MaxInt32 / (255 * 127)

// Pack packs a weight matrix in panels. It asks for each row once, a few at a time, on all threads.
func (b *Backend) Pack(out, in int, as backend.Precision, row backend.RowFunc) backend.Matrix {
	if out < 1 || in < 1 || int(as) >= len(formats) || as == backend.Int8 && in > maxInt8 {
		panic(fmt.Sprintf("Pack: [%d, %d] weights as %d", out, in, as))
	}
	m := &matrix{out: out, in: in, as: as, k: gemm.For(b.level, formats[as], out)}
	m.lines = m.k.Lines(in)
	wide := m.panels() * m.k.Columns
	m.memory = b.slabs.storage(m.panels() * m.sizePanel())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.For(wide/packWidth, func(worker, i int) {
		m.packColumns(i*packWidth, row, b.workers[worker].row.get(packWidth*columnStride(in)))
	})
	return m
}

// packWidth is the number of columns packed at a time: a whole cache line of each word.
const packWidth = 16

func (m *matrix) packColumns(first int, row backend.RowFunc, x []float32) {
	n := min(packWidth, m.out-first)
	if n <= 0 {
		return
	}
	stride := columnStride(m.in)
	for i := range packWidth {
		column := x[i*stride:][:m.in]
		clear(column)
		if i < n {
			row(first+i, column)
		}
	}
	panel, at := m.panel(first/m.k.Columns), first%m.k.Columns
	scale, sum := m.k.PackColumns(panel, at, x, stride, m.in)
	if m.k.Quantised() {
		scales, offsets := m.scales(panel)
		copy(scales[at:], scale[:n])
		for i, s := range sum[:n] {
			offsets[at+i] = math.Float32frombits(uint32(s * m.k.Offset()))
		}
	}
}

// columnStride avoids strides of a power of two, which would collide in the caches.
func columnStride(depth int) int { return depth + lineBytes/4 }

// operand holds rows of activations packed for a matrix.
type operand struct {
	data  []float32
	scale []float32 // for Int8, of the rows
}

// operand takes memory for rows from buffers.
func (m *matrix) operand(rows int, data *buffer) operand {
	n, scales := m.k.SizeA(rows, m.in), rows
	if m.blocks != nil {
		n, scales = m.blocks.SizeA(rows, m.in), 0
	}
	d := data.get(n + scales)
	return operand{d[:n], d[n:]}
}

// pack packs rows of x, ldx values apart, as the first rows of an operand.
func (m *matrix) pack(a operand, x []float32, ldx, rows int, w *worker) {
	if m.blocks != nil {
		m.blocks.PackA(a.data, x, ldx, rows, m.in, w.scratch.get(gemm.PackScratch))
		return
	}
	m.k.PackA(a.data, a.scale, x, ldx, rows, m.in)
}

// from returns the operand without its first rows, which must be whole panels.
func (a operand) from(m *matrix, row int) operand {
	if m.blocks != nil {
		return operand{data: a.data[m.blocks.SizeA(row, m.in):]}
	}
	return operand{a.data[4*row*m.lines:], a.scale[row:]}
}

// tile computes a [rows, k.Columns] tile of the product, with rows ldt apart: all rows times panel
// j. The rows are the first of the operand.
func (m *matrix) tile(tile []float32, ldt int, a operand, rows, j int, w *worker) {
	panel := m.panel(j)
	if m.blocks != nil {
		m.blocks.Mul(tile, ldt, a.data, panel, rows, m.in, w.scratch.get(m.blocks.Scratch()))
		return
	}
	m.k.Mul(tile, ldt, a.data, panel, rows, m.lines, false)
	if m.k.Quantised() {
		scale, offset := m.scales(panel)
		m.k.Scale(tile, ldt, a.scale, scale, offset, rows)
	}
}
