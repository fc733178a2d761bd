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
	k       *gemm.Kernel // of its panels' columns; it stores tiles of all formats
	by      multiplier
	lines   int // words along the depth
	memory  storage
	parts   []*matrix // matrices with the same input, whose outputs are in order
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
func (m *matrix) sizePanel() int { return m.by.sizePanel(m.in) }

// panel returns packed panel j, followed by scales and offsets.
func (m *matrix) panel(j int) []float32 {
	n := m.sizePanel()
	return m.memory.data[j*n : (j+1)*n]
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
	m := &matrix{out: out, in: in, as: as, k: gemm.KernelFor(b.level, formats[as], out)}
	m.by = dense{m.k}
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
		scales, offsets := dense{m.k}.scales(panel)
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
	n, scales := m.by.sizeRows(rows, m.in)
	d := data.get(n + scales)
	return operand{d[:n], d[n:]}
}

// pack packs rows of x, ldx values apart, as the first rows of an operand.
func (m *matrix) pack(a operand, x []float32, ldx, rows int, w *worker) {
	m.by.pack(a, x, ldx, rows, m.in, w)
}

// from returns the operand without its first rows, which must be whole panels.
func (a operand) from(m *matrix, row int) operand {
	n, scales := m.by.sizeRows(row, m.in)
	return operand{a.data[n:], a.scale[scales:]}
}

// tile computes a [rows, k.Columns] tile of the product, with rows ldt apart: all rows times panel
// j. The rows are the first of the operand.
func (m *matrix) tile(tile []float32, ldt int, a operand, rows, j int, w *worker) {
	m.by.multiply(tile, ldt, a, m.panel(j), rows, m.in, w)
}
