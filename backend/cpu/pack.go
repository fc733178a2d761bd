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
	out, in   int
	precision backend.Precision

	// kernel has the panels' number of columns. It stores tiles of all formats.
	kernel     *gemm.Kernel
	multiplier multiplier

	// lines are the lines of four words along the depth.
	lines int

	memory storage

	// parts, if not nil, are matrices with the same input, whose outputs follow each other. The
	// matrix then has no panels of its own.
	parts []*matrix
}

func (m *matrix) Out() int                     { return m.out }
func (m *matrix) In() int                      { return m.in }
func (m *matrix) Precision() backend.Precision { return m.precision }

// Bytes returns the memory of all parts.
func (m *matrix) Bytes() int {
	n := 4 * len(m.memory.data)
	for _, p := range m.parts {
		n += p.Bytes()
	}
	return n
}

// panelCount returns the number of panels; the last is padded with zero columns.
func (m *matrix) panelCount() int { return (m.out + m.kernel.Columns - 1) / m.kernel.Columns }

// panelWords returns the words of a panel and of what follows it.
func (m *matrix) panelWords() int { return m.multiplier.sizePanel(m.in) }

// panel returns packed panel j, followed by scales and offsets.
func (m *matrix) panel(j int) []float32 {
	n := m.panelWords()
	return m.memory.data[j*n : (j+1)*n]
}

var formats = [...]gemm.Format{backend.F32: gemm.F32, backend.BF16: gemm.BF16,
	backend.Int8: gemm.Int8}

// maxInt8Depth is the largest depth for which sums of int8 products cannot overflow int32.
const maxInt8Depth = math.MaxInt32 / (255 * 127)

// Pack packs a weight matrix in panels. It asks for each row once, a few at a time, on all threads.
func (b *Backend) Pack(out, in int, precision backend.Precision,
	row backend.RowFunc) backend.Matrix {
	if out < 1 || in < 1 || int(precision) >= len(formats) ||
		precision == backend.Int8 && in > maxInt8Depth {
		panic(fmt.Sprintf("Pack: [%d, %d] weights as %d", out, in, precision))
	}
	kernel := gemm.KernelFor(b.level, formats[precision], out)
	m := &matrix{
		out:        out,
		in:         in,
		precision:  precision,
		kernel:     kernel,
		multiplier: dense{kernel},
		lines:      kernel.Lines(in),
	}
	paddedOut := m.panelCount() * m.kernel.Columns
	m.memory = b.slabs.newWeights(m.panelCount() * m.panelWords())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pool.For(paddedOut/packWidth, func(worker, i int) {
		m.packColumns(i*packWidth, row, b.workers[worker].row.get(packWidth*columnStride(in)))
	})
	return m
}

// packWidth is the number of columns packed at a time: a whole cache line of each word.
const packWidth = 16

// packColumns packs packWidth columns from `first` on; those beyond the last are zero. x is working
// memory.
func (m *matrix) packColumns(first int, row backend.RowFunc, x []float32) {
	n := min(packWidth, m.out-first)
	if n <= 0 {
		return
	}
	stride := columnStride(m.in)
	for i := range packWidth {
		column := x[i*stride:][:m.in] // a row of the matrix is a column of a panel
		clear(column)
		if i < n {
			row(first+i, column)
		}
	}
	panel := m.panel(first / m.kernel.Columns)
	column := first % m.kernel.Columns
	scale, sum := m.kernel.PackColumns(panel, column, x, stride, m.in)
	if m.kernel.Quantised() {
		scales, offsets := dense{m.kernel}.scales(panel)
		copy(scales[column:], scale[:n])
		for i, s := range sum[:n] {
			offsets[column+i] = math.Float32frombits(uint32(s * m.kernel.Offset()))
		}
	}
}

// columnStride avoids strides of a power of two, which would collide in the caches.
func columnStride(depth int) int { return depth + lineBytes/4 }

// operand holds rows of activations packed for a matrix.
type operand struct {
	data  []float32
	scale []float32 // with Int8, a scale for each row
}

// newOperand takes memory for rows from buffers.
func (m *matrix) newOperand(rows int, data *buffer) operand {
	n, scales := m.multiplier.sizeRows(rows, m.in)
	d := data.get(n + scales)
	return operand{d[:n], d[n:]}
}

// pack packs rows of x, ldx values apart, as the first rows of an operand.
func (m *matrix) pack(a operand, x []float32, ldx, rows int, w *worker) {
	m.multiplier.pack(a, x, ldx, rows, m.in, w)
}

// skipRows returns the operand without its first `rows` rows, which must be whole panels.
func (a operand) skipRows(m *matrix, rows int) operand {
	n, scales := m.multiplier.sizeRows(rows, m.in)
	return operand{a.data[n:], a.scale[scales:]}
}

// computeTile computes a [rows, k.Columns] tile of the product, with rows ldt apart: all rows times
// panel j. The rows are the first of the operand.
func (m *matrix) computeTile(tile []float32, ldt int, a operand, rows, j int, w *worker) {
	m.multiplier.multiply(tile, ldt, a, m.panel(j), rows, m.in, w)
}
