// Package gemm multiplies packed matrices: C[rows, columns] = A[rows, depth] B[depth, columns].
//
// A word is 4 bytes and holds 1 float32, 2 bfloat16 or 4 bytes along the depth. Packed
// memory is []float32 whatever its words hold.
//
// A is packed in panels of rows. Four words of a row are a line, and a panel holds its rows' first
// lines, then their second lines, and so on. The last rows form smaller panels, of the heights that
// the kernel has, so that row r of a panel's first always begins at word 4*r*lines.
//
// B is packed in panels of Kernel.Columns columns: for each word along the depth, the columns'
// words. The depth is filled up with zeros to whole lines.
//
// Every float32 element of C is one chain of fused multiply-adds over the depth, in order and
// from 0. So it has the same bits on every instruction set, including plain Go, for any
// number of rows, and wherever it stands in C.
package gemm

import (
	"math"
	"unsafe"

	"unmask/internal/simd"
)

// Format is the type of the numbers in the words of A and B.
type Format uint8

// The formats. In the wide ones the kernel unpacks B while it multiplies, on processors that
// cannot multiply its words; their A holds float32 rounded to bfloat16, or int16. Int8 and
// Int8Signed differ in A's bytes, which are unsigned and shifted in the first.
const (
	F32 Format = iota
	BF16
	BF16Wide
	Int8
	Int8Wide
	Int8Signed
)

// Kernel multiplies panels of one format on one instruction set.
type Kernel struct {
	Format Format

	// Rows are the rows of a panel of A, Columns the columns of a panel of B, a multiple of 16.
	Rows    int
	Columns int

	// Cache is the words of A that a core's second-level cache holds beside B.
	Cache int

	// heights are the kernels by the panels' heights, the largest first.
	heights []height

	// windows computes from windows where they stand; nil where there is no such kernel.
	windows windows

	// pack packs values for A, bytes packs bytes, four to a word, for B. Those bytes, after an
	// exclusive or with flip, are shifted by 128.
	pack  packer
	bytes packer
	flip  uint32

	// largest returns the largest magnitude of 8n values.
	largest func(x *float32, n int) float32

	// turn transposes 8 columns of 8n words; nil in plain Go.
	turn func(dst, x *float32, ldd, ldx, n int)

	// scale turns sums of int8 products into float32, see Scale.
	scale func(tile, row, col, offset *float32, ldt, rows, cols int)

	finish
}

// finish are the kernels that finish tiles of all formats, see Fetch, Times and Store.
type finish struct {
	fetch func(x *float32, ldx, rows, cols int) // nil in plain Go
	times func(tile, x *float32, ldt, ldx, rows, cols int)
	store func(dst, tile, bias *float32, ldd, ldt, rows, cols, add int)
}

// multiply computes a panel of A times a panel of B, added to a tile; see the loops in the
// generated code. It also prefetches from address next on, a quarter of B's bytes.
type multiply = func(a, b, from, c *float32, ldf, ldc, lines int, next uintptr)

// height is the kernel for panels of a number of rows.
type height struct {
	rows int
	run  multiply
}

// packer packs n steps of a row of x, as many values each as its format has, and multiplies them by
// inverse in the int8 formats.
type packer = func(dst, x *float32, stride, n int, inverse float32)

// windows computes the tallest panel's product from rows that are not packed; see the loop in the
// generated code.
type windows = func(a, b, c *float32, lda, ldc, lines, runs, pitch int)

// formats has the sizes of each format.
var formats = [...]struct {
	// words are the words of B for a line of A.
	words int

	// values are the values in a word of B.
	values int

	// step is the values that pack, the packer in plain Go, takes at a time.
	step int
	pack packer
}{
	F32:        {4, 1, 8, packF32Go},
	BF16:       {4, 2, 16, packBF16Go},
	BF16Wide:   {2, 2, 8, packBF16WideGo},
	Int8:       {4, 4, 16, packInt8Go},
	Int8Wide:   {2, 4, 8, packInt8WideGo},
	Int8Signed: {4, 4, 16, packInt8SignedGo},
}

// Values returns the number of values along the depth in a line.
func (k *Kernel) Values() int { return formats[k.Format].words * formats[k.Format].values }

// Lines returns the number of lines that a depth takes.
func (k *Kernel) Lines(depth int) int { return (depth + k.Values() - 1) / k.Values() }

// SizeA returns the number of words that rows of A take.
func (k *Kernel) SizeA(rows, depth int) int { return 4 * rows * k.Lines(depth) }

// SizeB returns the number of words that one panel of B takes.
func (k *Kernel) SizeB(depth int) int {
	return formats[k.Format].words * k.Columns * k.Lines(depth)
}

// Offset returns the number that is added to each byte of A in the format Int8: a column's sums are
// too large by Offset times the sum of its weights. It is 0 in the other formats.
func (k *Kernel) Offset() int32 {
	if k.Format == Int8 {
		return 128
	}
	return 0
}

// KernelFor returns the kernel for a format: F32, BF16 or Int8. Where the instruction set has two,
// KernelFor chooses the one that wastes less on padding a matrix of so many columns; 0 means many.
func KernelFor(level simd.Level, f Format, columns int) *Kernel {
	var best *Kernel
	for _, k := range kernels(level, f) {
		if best == nil || paddingColumns(k, columns) < paddingColumns(best, columns) {
			best = k
		}
	}
	return best
}

// paddingColumns returns the columns that the last panel of a matrix has too many.
func paddingColumns(k *Kernel, columns int) int {
	return (columns+k.Columns-1)/k.Columns*k.Columns - columns
}

// depthStep is how many lines are multiplied at a time, so that a part of a panel of B stays in the
// nearest cache while the panels of A pass. Each fetches a quarter of the following part: weights
// that come from memory then arrive while those before are multiplied.
const depthStep = 96

// Mul computes c = A B, or c += A B with acc, for a panel of B and rows of A that begin with a
// panel. c [rows, Columns] has rows ldc apart; its words are int32 in the int8 formats.
func (k *Kernel) Mul(c []float32, ldc int, a, b []float32, rows, lines int, acc bool) {
	if rows == 0 {
		return
	}
	lineWords := formats[k.Format].words * k.Columns // words of B in a line
	_ = c[(rows-1)*ldc+k.Columns-1]                  // the assembly checks no bounds
	_ = a[4*rows*lines-1]
	_ = b[lineWords*lines-1]

	for first := 0; first < lines; first += depthStep {
		n := min(depthStep, lines-first)
		partBytes := uintptr(4 * lineWords * n)
		next := uintptr(unsafe.Pointer(&b[lineWords*first])) + partBytes
		panels := uintptr(0)
		for row := 0; row < rows; {
			h := k.panel(rows - row)
			start := &zeros[0]
			startStride := 0
			if acc || first > 0 {
				start = &c[row*ldc]
				startStride = ldc
			}
			h.run(&a[4*(row*lines+h.rows*first)], &b[lineWords*first], start, &c[row*ldc],
				startStride, ldc, n, next+panels%4*(partBytes/4))
			row += h.rows
			panels++
		}
	}
}

// ReadsWindows reports whether Windows can be called with runs of that many values.
func (k *Kernel) ReadsWindows(run int) bool { return k.windows != nil && run%4 == 0 }

// Windows computes c [Rows, Columns] = A B where A is not packed, as the windows of an image: its
// rows are lda values apart, and each has runs parts of run values that are pitch apart. B is a
// panel of depth runs*run. c has the same bits as from a packed A.
func (k *Kernel) Windows(c, a, b []float32, lda, run, runs, pitch int) {
	_ = c[k.Rows*k.Columns-1] // the assembly checks no bounds
	_ = a[(runs-1)*pitch+(k.Rows-1)*lda+run-1]
	_ = b[k.Columns*runs*run-1]
	k.windows(&a[0], &b[0], &c[0], lda, k.Columns, run/4, runs, pitch)
}

// panel returns the kernel of the tallest panel of at most `rows` rows.
func (k *Kernel) panel(rows int) *height {
	for i := range k.heights {
		if h := &k.heights[i]; h.rows <= rows {
			return h
		}
	}
	panic("gemm: no rows")
}

// Fetch asks for the cache lines of rows ldx apart, which Times or Store will need: each row is in
// another place of memory, so that they would be waited for one after the other.
func (k *Kernel) Fetch(x []float32, ldx, rows, columns int) {
	if rows == 0 || columns == 0 || k.fetch == nil {
		return
	}
	_ = x[(rows-1)*ldx+columns-1]
	k.fetch(&x[0], ldx, rows, (columns+15)/16*16)
}

// Times multiplies a tile [rows, columns] by x of the same shape: tile *= x. Rows are ldt and ldx
// values apart.
func (k *Kernel) Times(tile []float32, ldt int, x []float32, ldx, rows, columns int) {
	if rows == 0 || columns == 0 {
		return
	}
	_ = tile[(rows-1)*ldt+columns-1] // the assembly checks no bounds
	_ = x[(rows-1)*ldx+columns-1]
	whole := columns / 16 * 16
	if whole > 0 {
		k.times(&tile[0], &x[0], ldt, ldx, rows, whole)
	}
	if whole < columns {
		timesGo(&tile[whole], &x[whole], ldt, ldx, rows, columns-whole)
	}
}

// Store finishes a tile: dst = tile + bias by rows and columns, or dst += with add. A nil bias is
// none. dst may be tile.
func (k *Kernel) Store(dst []float32, ldd int, tile []float32, ldt int, bias []float32, rows,
	columns int, add bool) {
	if rows == 0 || columns == 0 {
		return
	}
	_ = dst[(rows-1)*ldd+columns-1] // the assembly checks no bounds
	_ = tile[(rows-1)*ldt+columns-1]
	if bias == nil {
		bias = zeros[:]
	}
	if len(bias) < columns { // zeros is as wide as a panel; wider tiles pass a bias
		panic("gemm: Store: bias is shorter than the columns")
	}
	flag := 0
	if add {
		flag = 1
	}
	whole := columns / 16 * 16
	if whole > 0 {
		k.store(&dst[0], &tile[0], &bias[0], ldd, ldt, rows, whole, flag)
	}
	if whole < columns {
		storeGo(&dst[whole], &tile[whole], &bias[whole], ldd, ldt, rows, columns-whole, flag)
	}
}

// zeros is a row of a tile.
var zeros [48]float32

// Scale turns int32 sums of int8 products into float32: tile = (tile-offset)*row*col, with a
// factor for each row and column, over Columns columns of rows ldt apart. offset holds int32.
func (k *Kernel) Scale(tile []float32, ldt int, row, col, offset []float32, rows int) {
	if rows == 0 {
		return
	}
	_ = tile[(rows-1)*ldt+k.Columns-1] // the assembly checks no bounds
	_ = row[rows-1]
	_ = col[k.Columns-1]
	_ = offset[k.Columns-1]
	k.scale(&tile[0], &row[0], &col[0], &offset[0], ldt, rows, k.Columns)
}

// infinite is +Inf.
var infinite = float32(math.Inf(1))
