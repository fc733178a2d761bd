package gemm

import (
	"encoding/binary"
	"math"
	"unsafe"

	"unmask/internal/quant"
)

// A group is the values of a column that a format's block has, 32 or 256. In a packed panel it is,
// in words for each column, in this order:
//
//	Q8_0   8 of values, 1 scale: a record
//	Q4_0   4 of two values a byte, 1 scale; of 256 values the scales are behind all others
//	Q4_K  32 of two values a byte, 2 of scales, d, 2 of mins, -m
//	Q5_K  32 of two values a byte, 8 of fifth bits, 2 of scales, d, 2 of mins, -m
//	Q6_K  32 of two values a byte, 16 of high pairs, 4 of scales, d
//
// Of 32 values a byte's low half is in words 0 to 3 and its high half in words 4 to 7. Bit w of a
// byte of fifth bits belongs to word w, and bits 2w%8 of a byte of high pairs to word w. Scales are
// a byte of every column after the other, mins are words of four of a column's.
var groupWords = [...]int{quant.Q8_0: 9, quant.Q4_0: 5, quant.Q4_K: 38, quant.Q5_K: 46,
	quant.Q6_K: 53}

// SizeB returns the number of words that one panel of B takes.
func (k *Blocks) SizeB(depth int) int {
	return depth / k.Type.Values() * groupWords[k.Type] * k.Columns
}

// AsBytes returns the bytes of words.
func AsBytes(x []float32) []uint8 {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*uint8)(unsafe.Pointer(&x[0])), 4*len(x))
}

// PackColumns packs columns of depth values, blocks of the format, as columns from c on of a panel.
// They are packed a group at a time, which the nearest cache holds.
func (k *Blocks) PackColumns(panel []float32, c int, columns []byte, depth int) {
	words := groupWords[k.Type] * k.Columns
	size := k.Type.RowBytes(depth)
	var b quant.Block
	for g := range depth / k.Type.Values() {
		for i := range len(columns) / size {
			b.Split(k.Type, columns[i*size+g*k.Type.Bytes():])
			if k.Type == quant.Q4_0 {
				k.packFour(panel, c+i, &b, g, depth/run)
			} else {
				k.packGroup(panel[g*words:(g+1)*words], c+i, &b)
			}
		}
	}
}

// packFour packs block g of all in a column of Q4_0, whose scales are behind those of 256 values.
func (k *Blocks) packFour(panel []float32, c int, b *quant.Block, g, all int) {
	n := k.Columns
	words := groupWords[k.Type] * k.Columns
	groupBlocks := groupOf(all*run) / run
	first := g / groupBlocks * groupBlocks // first block of the 256 values
	k.packLow(panel[words*first+4*n*(g-first):], c, b.Q[:run])
	panel[words*first+n*(4*min(groupBlocks, all-first)+g-first)+c] = b.D
}

// packGroup packs a block of another format in a column of a group.
func (k *Blocks) packGroup(group []float32, c int, b *quant.Block) {
	n := k.Columns
	bytes := AsBytes(group)
	if k.Type == quant.Q8_0 {
		for w := range run / 4 {
			word := binary.LittleEndian.Uint32(b.Q[4*w:])
			if k.flip {
				word ^= 0x80808080
			}
			group[w*n+c] = math.Float32frombits(word)
		}
		group[8*n+c] = b.D
		return
	}
	k.packLow(group, c, b.Q[:])
	next := 32 * n // the word where the next part begins
	switch k.Type {
	case quant.Q5_K:
		k.packHigh(bytes[4*next:], c, b.Q[:], 1)
		next += 8 * n
	case quant.Q6_K:
		k.packHigh(bytes[4*next:], c, b.Q[:], 2)
		next += 16 * n
	}
	for i := range 256 / k.Type.Run() {
		bytes[4*next+i*n+c] = uint8(b.Scale[i])
	}
	next += 256 / k.Type.Run() / 4 * n
	group[next+c] = b.D
	if k.Type.Mins() {
		next += n
		copy(bytes[4*(next+c):][:4], b.Min[:4])
		copy(bytes[4*(next+n+c):][:4], b.Min[4:])
		group[next+2*n+c] = -b.M
	}
}

// packLow packs the low halves of a column's levels, 32 at a time, in the words dst of a panel.
func (k *Blocks) packLow(dst []float32, c int, q []uint8) {
	const mask = 0x0f0f0f0f_0f0f0f0f
	for word := c; len(q) >= run; q = q[run:] {
		for i := range 2 {
			low := binary.LittleEndian.Uint64(q[8*i:])
			high := binary.LittleEndian.Uint64(q[16+8*i:])
			twoWords := low&mask | high&mask<<4
			dst[word] = math.Float32frombits(uint32(twoWords))
			dst[word+k.Columns] = math.Float32frombits(uint32(twoWords >> 32))
			word += 2 * k.Columns
		}
	}
}

// packHigh packs the bits of a column's levels above the low halves, one or two of each level.
func (k *Blocks) packHigh(bytes []uint8, c int, q []uint8, bits int) {
	mask := uint32(0x01010101)
	if bits == 2 {
		mask = 0x03030303
	}
	for s := range len(q) / run {
		var planes [2]uint32
		for w := range 8 {
			planes[bits*w/8] |= binary.LittleEndian.Uint32(q[s*run+4*w:]) >> 4 & mask << (bits * w % 8)
		}
		for i, v := range planes[:bits] {
			binary.LittleEndian.PutUint32(bytes[((bits*s+i)*k.Columns+c)*4:], v)
		}
	}
}

// unpackGroup makes records of n times 32 values, and returns the first.
func (k *Blocks) unpackGroup(scratch, packed []float32, n int) *float32 {
	columns := k.Columns
	stride := k.recordWords()
	// words from the first four words of a column to the others: a record's scales may be between
	half := 4 * columns
	if k.records() == 2 {
		half = 5 * columns
	}
	k.unpack(&scratch[0], &packed[0], &packed[4*columns*n], 4*columns, 4*half, n, 4*stride)
	if k.Type != quant.Q4_0 {
		k.expandGroup(scratch[k.words()*columns:], packed, (k.words()+1)*columns)
		return &scratch[0]
	}
	for s := range n {
		copy(scratch[stride*s+8*columns:][:columns], packed[(4*n+s)*columns:])
	}
	return &scratch[0]
}

// groupScales returns the scales of n times 32 values, one record's behind the other's.
func (k *Blocks) groupScales(scratch, packed []float32, n int) *float32 {
	if k.Type == quant.Q4_0 {
		return &packed[4*n*k.Columns]
	}
	scales := scratch[group/run*k.recordWords():]
	k.expandGroup(scales, packed, k.Columns)
	return &scales[0]
}

// expandGroup makes float32 of a group's scales, dst's columns stride words apart.
func (k *Blocks) expandGroup(dst, packed []float32, stride int) {
	levels := [...]int{quant.Q4_K: 32, quant.Q5_K: 40, quant.Q6_K: 48}[k.Type] * k.Columns
	rows := 8 * k.records()
	d := levels + rows/4*k.Columns
	k.expand(&dst[0], &packed[d], &packed[levels], k.Columns, rows, 4*stride)
}

// PackA quantises rows of x, ldx values apart, each depth long, and packs them. A row with a NaN or
// an infinity gets a scale of NaN where it stands. scratch has PackScratch words.
func (k *Blocks) PackA(dst, x []float32, ldx, rows, depth int, scratch []float32) {
	whole := k.SizeA(1, depth)
	for row := 0; row < rows; {
		h := tallest(k.heights, rows-row).rows
		for r := range h {
			k.packRow(dst[row*whole:][:h*whole], x[(row+r)*ldx:][:depth], h, r, scratch)
		}
		row += h
	}
}

// PackScratch is how many words of working memory PackA needs: for a group of levels, of sums of 16
// each, and of inverses of 32 each.
const PackScratch = group/4 + group/16 + group/run

// packRow packs row r of a panel of h rows.
func (k *Blocks) packRow(dst, x []float32, h, r int, scratch []float32) {
	bytes := scratch[:group/4]             // int8
	totals := scratch[group/4:][:group/16] // int32
	inverse := scratch[group/4+group/16:][:group/run]
	words := k.words()
	record := h * (words + 1)
	offset := int32(k.offset())
	groupSize := groupOf(len(x))
	for len(x) > 0 {
		n := min(groupSize, len(x)) / run
		scale, factor := levels(k.largest(&x[0], n*run/8))
		for i := range inverse {
			inverse[i] = factor
		}
		k.quantise(&bytes[0], &totals[0], &x[0], &inverse[0], n)
		for s := range n {
			row := dst[r:][:h*(8+k.records())-r]
			q := bytes[s*run/4:][:run/4]
			firstSum := int32(math.Float32bits(totals[2*s]))
			secondSum := int32(math.Float32bits(totals[2*s+1]))
			for w, v := range q[:4] {
				row[w*h] = v
			}
			if words == run/4 { // one record of 32 values
				for w, v := range q[4:] {
					row[(4+w)*h] = v
				}
				row[8*h] = math.Float32frombits(uint32(-offset * (firstSum + secondSum)))
			} else { // two of 16
				for w, v := range q[4:] {
					row[record+w*h] = v
				}
				row[4*h] = math.Float32frombits(uint32(-offset * firstSum))
				row[record+4*h] = math.Float32frombits(uint32(-offset * secondSum))
			}
			dst = dst[h*(8+k.records()):]
		}
		if k.Type.Mins() {
			packSums(dst, totals, h, r)
			dst = dst[h*(sums+1):]
		}
		dst[r] = scale
		dst = dst[h:]
		x = x[n*run:]
	}
}

// packSums packs the sums of a row's levels in each of eight 32 values: two words of their 64ths,
// two of what is left, -32 to 31, and 0, where the sums begin.
func packSums(dst, totals []float32, h, r int) {
	var bytes [4 * sums]uint8
	for s := range 8 {
		sum := int32(math.Float32bits(totals[2*s])) + int32(math.Float32bits(totals[2*s+1]))
		high := (sum + 32) >> 6
		bytes[s] = uint8(high)
		bytes[8+s] = uint8(sum - 64*high)
	}
	for w := range sums {
		dst[w*h+r] = math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*w:]))
	}
	dst[sums*h+r] = 0
}
