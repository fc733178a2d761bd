package gemm

import (
	"unsafe"

	"unmask/internal/quant"
	"unmask/internal/simd"
)

// Blocks multiplies rows with columns of a block format by integer products: no weight becomes
// float32, only sums of 16 or 32 products do.
//
// A row is quantised 256 values at a time to 255 levels; formats of 32 values may have a last
// group that is shorter, and rows shorter than 256 are quantised 32 at a time. Of a panel of rows,
// a group is packed in records of 32 values, or of 16 where the format has a scale for each 16: for
// each word along the depth, the word of every row of a panel, then for each row an int32 at which
// its sums begin. Formats with mins have another record: the sums of the rows' levels in each 32
// values are 64*high + low, and two words of a row are high bytes, two low ones. Behind its records
// a group has each row's scale.
//
// A panel of columns is kept as small as the file has it. A group at a time is unpacked to records
// of bytes while rows pass: words as in B of the int8 formats, then a scale for each column. Mins
// stay where they are: two words of a column, and a scale of -m.
//
// An element of C is a chain of fused multiply-adds over the groups, in order and from 0, and what
// is added is one over a group's records, the mins' at last:
//
//	p = fma(float32(sum), columnScale, p)
//	c = fma(p, rowScale, c)
//
// Sums are exact, so C has the same bits on every instruction set.
type Blocks struct {
	Type quant.Type

	// Rows, Columns and Cache are as in Kernel.
	Rows    int
	Columns int
	Cache   int

	// Tile is a float32 kernel of the same sizes. It only finishes tiles: its Store.
	Tile *Kernel

	// heights are the kernels by the panels' heights, the largest first. For manyRows rows or more,
	// `many` is used instead, unless it is nil: its kernels unpack levels once for all rows.
	heights  []blockHeight
	many     []blockHeight
	manyRows int

	// flip says that B's bytes are unsigned: Q8_0's are shifted by 128.
	flip bool

	// The kernels beside the products: see the plain Go twins.
	largest  func(x *float32, n int) float32
	quantise func(dst, sums, x, inverse *float32, n int)
	unpack   func(dst, src, high *float32, width, half, blocks, stride int)
	expand   func(dst, d, levels *float32, columns, rows, stride int)
}

// multiplyBlocks adds to c the product of panels of A and a group of a panel of B. The group is
// `records` records of `words` words along the depth, with mins if that is not nil. The groups of
// A's panels are skip bytes apart. p is working memory for a tile or, for levels as they are
// packed, the records' scales. It prefetches lines, from address next on and step bytes apart.
type multiplyBlocks = func(a, b, mins, c, p *float32, ldc, panels, skip, records, words int,
	next uintptr, step int)

// blockHeight is the kernel for panels of a number of rows.
type blockHeight struct {
	rows int
	run  multiplyBlocks

	// fetches is the number of cache lines that it prefetches for each 32 values.
	fetches int

	// packed says that it takes levels as they are packed, and one panel a call if it has one row.
	packed bool
}

// blockHeights returns kernels that share fetches and packed, one for each of rows.
func blockHeights(fetches int, packed bool, rows []int, run ...multiplyBlocks) (all []blockHeight) {
	for i, n := range rows {
		all = append(all, blockHeight{n, run[i], fetches, packed})
	}
	return all
}

const (
	run   = 32  // values of a block, or of a block's part with a min
	group = 256 // values that are quantised together
	sums  = 4   // words of a row's sums in a group
)

// BlocksFor returns the kernel for a block format.
func BlocksFor(level simd.Level, t quant.Type) *Blocks { return blocksFor(level, t) }

// tiled sets the sizes of k, whose kernels it has, and how its tiles are stored.
func (k *Blocks) tiled(columns, cache int, f finish) *Blocks {
	k.Rows = k.heights[0].rows
	k.Columns = columns
	k.Cache = cache
	k.Tile = &Kernel{Format: F32, Rows: k.Rows, Columns: columns, Cache: cache, finish: f}
	return k
}

// words is how many words a record has along the depth, records how many there are in 32 values.
func (k *Blocks) words() int   { return k.Type.Run() / 4 }
func (k *Blocks) records() int { return run / k.Type.Run() }

// groupA returns the number of words of A that a row takes for a group of n times 32 values.
func (k *Blocks) groupA(n int) int {
	if n == 0 {
		return 0
	}
	n *= run/4 + k.records()
	if k.Type.Mins() {
		n += sums + 1
	}
	return n + 1
}

// groupOf is the number of values of a row that are quantised together.
func groupOf(depth int) int {
	if depth < group {
		return run
	}
	return group
}

// SizeA returns the number of words that rows of A take.
func (k *Blocks) SizeA(rows, depth int) int {
	size := groupOf(depth)
	return rows * (depth/size*k.groupA(size/run) + k.groupA(depth%size/run))
}

// Scratch returns the number of words of working memory that Mul needs.
func (k *Blocks) Scratch() int {
	n := k.Rows * k.Columns
	if k.Type != quant.Q8_0 {
		n += group/run*k.recordWords() + group/k.Type.Run()*k.Columns // and scales by themselves
	}
	return n
}

// recordWords returns the number of words that 32 values of a panel of B take, as kernels read
// them.
func (k *Blocks) recordWords() int { return k.Columns * (run/4 + k.records()) }

// offset returns the difference of a byte of B and its level.
func (k *Blocks) offset() int {
	if k.flip && k.Type.Signed() {
		return 128
	}
	return k.Type.Offset()
}

// Mul computes c = A B for a panel of B and rows of A that begin with a panel. c [rows, Columns]
// has rows ldc apart.
func (k *Blocks) Mul(c []float32, ldc int, a, b []float32, rows, depth int, scratch []float32) {
	if rows == 0 {
		return
	}
	_ = c[(rows-1)*ldc+k.Columns-1] // the assembly checks no bounds
	_ = a[k.SizeA(rows, depth)-1]
	_ = b[k.SizeB(depth)-1]
	if ldc == k.Columns {
		clear(c[:rows*ldc])
	} else {
		for i := range rows {
			clear(c[i*ldc:][:k.Columns])
		}
	}
	tile := scratch[:k.Rows*k.Columns]
	scratch = scratch[k.Rows*k.Columns:]
	heights := k.heights
	if k.many != nil && rows >= k.manyRows {
		heights = k.many
	}
	anyPacked, anyUnpacked, fetches := kernelUse(heights, rows)

	// Of the current group: its number of 32 values, its words of B, those of a row of A, and the
	// bytes between fetches. They change at most once, for a shorter last group.
	var n, sizeB, sizeA, step int
	groupSize := groupOf(depth)
	rowWords := k.SizeA(1, depth)
	rowOffset := 0 // words of a row of A before the group
	for first := 0; first < depth; first += groupSize {
		if runs := min(groupSize, depth-first) / run; runs != n {
			n = runs
			sizeB = k.SizeB(n * run)
			sizeA = k.groupA(n)
			// As much as a group is fetched while all panels pass, evenly, from the next one's
			// middle on.
			step = (4*sizeB + n*fetches - 1) / (n * fetches)
		}
		records := &b[0]
		if anyUnpacked && k.Type != quant.Q8_0 {
			records = k.unpackGroup(scratch, b, n)
		}
		scales := &tile[0]
		if anyPacked {
			scales = k.groupScales(scratch, b, n)
		}
		var mins *float32
		if k.Type.Mins() {
			mins = &b[sizeB-3*k.Columns]
		}
		next := uintptr(unsafe.Pointer(&b[0])) + uintptr(6*sizeB)

		for row := 0; row < rows; {
			h := tallest(heights, rows-row)
			panels := 1
			if h.rows == k.Rows {
				panels = (rows - row) / h.rows
			}
			source := records
			p := &tile[0]
			if h.packed {
				source = &b[0]
				p = scales
			}
			h.run(&a[row*rowWords+h.rows*rowOffset], source, mins, &c[row*ldc], p, ldc, panels,
				4*h.rows*(rowWords-sizeA), n*k.records(), k.words(), next, step)
			row += panels * h.rows
		}
		rowOffset += sizeA
		b = b[sizeB:]
	}
}

// kernelUse reports whether some of the kernels that multiply `rows` rows take levels as they are
// packed, and whether some do not. It returns how many cache lines they fetch while 32 values of
// the depth pass.
func kernelUse(heights []blockHeight, rows int) (anyPacked, anyUnpacked bool, fetches int) {
	for _, h := range heights {
		n := rows / h.rows
		if n == 0 {
			continue
		}
		if h.packed {
			anyPacked = true
		} else {
			anyUnpacked = true
		}
		fetches += n * h.fetches
		rows -= n * h.rows
	}
	return anyPacked, anyUnpacked, fetches
}

// tallest returns the kernel of the tallest panel of at most `rows` rows.
func tallest(heights []blockHeight, rows int) blockHeight {
	for _, h := range heights {
		if h.rows <= rows {
			return h
		}
	}
	panic("gemm: no rows")
}
