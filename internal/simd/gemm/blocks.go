package gemm

import (
	"unsafe"

	"unmask/internal/quant"
	"unmask/internal/simd"
)

// Blocks multiplies rows with columns of a block format by integer products: no weight becomes
// float32, only sums of 16 or 32 products do.
//
// A row is quantised 32 values at a time to 255 levels. Rows are packed in records of 32 values, or
// of 16 where the format has a scale for each 16: for each word along the depth, the word of every
// row of a panel, then for each row an int32 at which its sums begin, then for each row its scale.
// For formats with mins each row also has the sums of its values in each 32, as a packed factor of
// Sums.
//
// A panel of columns is kept as small as the file has it. Pieces of it that fit the nearest cache
// are unpacked to records of bytes while rows pass: words as in B of the int8 formats, then a scale
// for each column.
//
// Every element of C is one chain of fused multiply-adds over the records, in order and from 0:
//
//	c = fma(float32(sum), rowScale*columnScale, c)
//
// and then over the mins. Sums are exact, so C has the same bits on every instruction set.
type Blocks struct {
	Type    quant.Type
	Rows    int     // of a panel of A
	Columns int     // of a panel of B
	Cache   int     // as Kernel's
	Sums    *Kernel // of float32, with panels of the same heights: mins and Store

	heights  []blockHeight
	flip     bool // B's bytes are unsigned: Q8_0's are shifted by 128
	largest  func(x *float32, n int) float32
	quantise func(dst, sums, x, inverse *float32, n int)
	unpack   func(dst, src, high *float32, width, half, blocks, stride int)
	expand   func(dst, d, levels *float32, columns, rows, stride int)
}

// multiplyBlocks computes a panel of A times a piece of a panel of B, records of so many words each
// along the depth, and fetches 64 bytes a word from address next on.
type multiplyBlocks = func(a, b, c *float32, ldc, records, words, acc int, next uintptr)

type blockHeight struct {
	rows int
	run  multiplyBlocks
}

const run = 32 // values that are quantised together

// BlocksFor returns the kernel for a block format.
func BlocksFor(level simd.Level, t quant.Type) *Blocks { return blocksFor(level, t) }

// words is how many words a record has along the depth, records how many there are in 32 values.
func (k *Blocks) words() int   { return k.Type.Run() / 4 }
func (k *Blocks) records() int { return run / k.Type.Run() }

// rowWords is how many words of A a row takes for 32 values: the values, and for each record where
// its sum begins and its scale.
func (k *Blocks) rowWords() int { return run/4 + 2*k.records() }

// SizeA is how many words rows of A take, without their sums.
func (k *Blocks) SizeA(rows, depth int) int { return rows * depth / run * k.rowWords() }

// SizeSums is how many words the sums of rows take, 0 for formats without mins.
func (k *Blocks) SizeSums(rows, depth int) int {
	if !k.Type.Mins() {
		return 0
	}
	return k.Sums.SizeA(rows, depth/run)
}

// Scratch is how many words of working memory Mul needs.
func (k *Blocks) Scratch(depth int) int {
	n := 0
	if k.Type != quant.Q8_0 {
		n = k.piece() * k.recordWords()
	}
	if k.Type.Mins() {
		n += k.Sums.SizeB(depth / run)
	}
	return n
}

// recordWords is how many words 32 values of a panel of B take as the kernels read them.
func (k *Blocks) recordWords() int { return k.Columns * (run/4 + k.records()) }

// piece is how many times 32 values of a panel of B are unpacked at a time, whole blocks of any
// format: about half of a first-level cache.
func (k *Blocks) piece() int { return 768 / k.Columns }

// offset is what every byte of B is more than its level.
func (k *Blocks) offset() int {
	if k.flip && k.Type.Signed() {
		return 128
	}
	return k.Type.Offset()
}

// Mul computes c = A B for a panel of B and rows of A that begin with a panel; sums are the rows'
// sums. c [rows, Columns] has rows ldc apart.
func (k *Blocks) Mul(c []float32, ldc int, a, sums, b []float32, rows, depth int,
	scratch []float32) {
	if rows == 0 {
		return
	}
	blocks := depth / run
	_, _, _ = c[(rows-1)*ldc+k.Columns-1], a[k.SizeA(rows, depth)-1], b[k.SizeB(depth)-1]
	records, mins := scratch, []float32(nil)
	if k.Type.Mins() {
		n := k.Sums.SizeB(blocks)
		mins, records = scratch[:n], scratch[n:]
		clear(mins[blocks*k.Columns:])
	}
	for from := 0; from < blocks; from += k.piece() {
		n := min(k.piece(), blocks-from)
		packed, part := k.part(b, from, n), records
		if k.Type == quant.Q8_0 {
			part = packed
		} else {
			k.unpackPiece(records, mins, packed, from, n)
		}
		acc := 0
		if from > 0 {
			acc = 1
		}
		next := uintptr(unsafe.Pointer(&packed[0])) + uintptr(4*len(packed))
		each := uintptr(n * run / 4 * 64) // bytes that one panel of rows fetches
		turns := (4*len(packed) + int(each) - 1) / int(each)
		for row, i := 0, 0; row < rows; i++ {
			h := k.panel(rows - row)
			h.run(&a[(row*blocks+h.rows*from)*k.rowWords()], &part[0], &c[row*ldc], ldc, n*k.records(),
				k.words(), acc, next+uintptr(i%turns)*each)
			row += h.rows
		}
	}
	if k.Type.Mins() {
		k.Sums.Mul(c, ldc, sums, mins, rows, k.Sums.Lines(blocks), true)
	}
}

// panel is the tallest panel of at most rows rows.
func (k *Blocks) panel(rows int) blockHeight {
	for _, h := range k.heights {
		if h.rows <= rows {
			return h
		}
	}
	panic("gemm: no rows")
}
