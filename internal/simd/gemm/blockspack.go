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
//	Q4_0   4 of two values a byte, 1 scale
//	Q4_K  32 of two values a byte, 2 of scales, 2 of mins, d, -m
//	Q5_K  32 of two values a byte, 8 of fifth bits, 2 of scales, 2 of mins, d, -m
//	Q6_K  32 of two values a byte, 16 of high pairs, 4 of scales, d
//
// Of 32 values a byte's low half is in words 0 to 3 and its high half in words 4 to 7. Bit w of a
// byte of fifth bits belongs to word w, and bits 2w%8 of a byte of high pairs to word w.
var groupWords = [...]int{quant.Q8_0: 9, quant.Q4_0: 5, quant.Q4_K: 38, quant.Q5_K: 46,
	quant.Q6_K: 53}

// SizeB is how many words one panel of B takes.
func (k *Blocks) SizeB(depth int) int {
	return depth / k.Type.Values() * groupWords[k.Type] * k.Columns
}

// part is n times 32 values of a packed panel from the from-th on, whole groups.
func (k *Blocks) part(b []float32, from, n int) []float32 {
	each := k.Type.Values() / run
	words := groupWords[k.Type] * k.Columns
	return b[from/each*words : (from+n)/each*words]
}

// Bytes returns the bytes of words.
func Bytes(x []float32) []uint8 {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*uint8)(unsafe.Pointer(&x[0])), 4*len(x))
}

// PackColumn packs a column of depth values, blocks of the format, as column c of a panel.
func (k *Blocks) PackColumn(panel []float32, c int, blocks []byte, depth int) {
	n := k.Columns
	words := groupWords[k.Type] * n
	var b quant.Block
	for g := range depth / k.Type.Values() {
		b.Split(k.Type, blocks[g*k.Type.Bytes():])
		group := panel[g*words : (g+1)*words]
		bytes := Bytes(group)
		switch k.Type {
		case quant.Q8_0:
			for i, q := range b.Q[:run] {
				if k.flip {
					q ^= 0x80
				}
				bytes[(i/4*n+c)*4+i%4] = q
			}
			group[8*n+c] = b.D
		case quant.Q4_0:
			k.packLow(bytes, c, b.Q[:run])
			group[4*n+c] = b.D
		default:
			k.packLow(bytes, c, b.Q[:])
			at := 32 * n
			switch k.Type {
			case quant.Q5_K:
				k.packHigh(bytes[4*at:], c, b.Q[:], 1)
				at += 8 * n
			case quant.Q6_K:
				k.packHigh(bytes[4*at:], c, b.Q[:], 2)
				at += 16 * n
			}
			for i := range 256 / k.Type.Run() {
				bytes[4*at+i*n+c] = uint8(b.Scale[i])
			}
			at += 256 / k.Type.Run() / 4 * n
			if k.Type.Mins() {
				for i, m := range b.Min[:8] {
					bytes[4*at+i*n+c] = m
				}
				at += 2 * n
				group[at+n+c] = -b.M
			}
			group[at+c] = b.D
		}
	}
}

// packLow packs the low halves of a column's levels, 32 at a time.
func (k *Blocks) packLow(bytes []uint8, c int, q []uint8) {
	const mask = 0x0f0f0f0f
	for s := range len(q) / run {
		for w := range 4 {
			low, high := binary.LittleEndian.Uint32(q[s*run+4*w:]),
				binary.LittleEndian.Uint32(q[s*run+16+4*w:])
			binary.LittleEndian.PutUint32(bytes[((4*s+w)*k.Columns+c)*4:], low&mask|high&mask<<4)
		}
	}
}

// packHigh packs the bits above those, one or two of each level.
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

// unpackPiece makes records of n times 32 values, the from-th and after, and their part of the
// mins.
func (k *Blocks) unpackPiece(records, mins, packed []float32, from, n int) {
	columns, stride := k.Columns, k.recordWords()
	if k.Type == quant.Q4_0 {
		for s := range n {
			src, dst := packed[5*columns*s:][:5*columns], records[stride*s:][:stride]
			k.unpack(&dst[0], &src[0], nil, 4*columns, 16*columns, 1, 4*stride)
			copy(dst[8*columns:], src[4*columns:])
		}
		return
	}
	words := groupWords[k.Type] * columns
	// words from the first four words of a column to the others: a record's scales may be between
	half := 4 * columns
	if k.records() == 2 {
		half = 5 * columns
	}
	high := [...]int{quant.Q4_K: 0, quant.Q5_K: 8, quant.Q6_K: 16}[k.Type] * columns
	for g := range n / 8 {
		src, dst := packed[g*words:][:words], records[8*stride*g:][:8*stride]
		k.unpack(&dst[0], &src[0], &src[32*columns], 4*columns, 4*half, 8, 4*stride)
		at, rows := 32*columns+high, 8*k.records()
		scales := at
		at += rows / 4 * columns
		if !k.Type.Mins() {
			k.expand(&dst[4*columns], &src[at], &src[scales], columns, rows, 4*5*columns)
			continue
		}
		k.expand(&dst[8*columns], &src[at+2*columns], &src[scales], columns, rows, 4*stride)
		k.expand(&mins[(from+8*g)*columns], &src[at+3*columns], &src[at], columns, rows, 4*columns)
	}
}

// PackA quantises rows of x, ldx values apart, each depth long, and packs them and their sums. A
// row with a NaN or an infinity gets a scale of NaN where it stands. scratch has PackScratch words.
func (k *Blocks) PackA(dst, sums, x []float32, ldx, rows, depth int, scratch []float32) {
	blocks := depth / run
	sumLines := 0
	if k.Type.Mins() {
		sumLines = k.Sums.Lines(blocks)
	}
	for row := 0; row < rows; {
		h := k.panel(rows - row).rows
		for r := range h {
			var own []float32
			if k.Type.Mins() {
				own = sums[4*(row*sumLines+r):]
			}
			k.packRow(dst[row*blocks*k.rowWords():], own, x[(row+r)*ldx:][:depth], h, r, scratch)
		}
		row += h
	}
}

const packStep = 16 // times 32 values of a row are quantised at a time

// PackScratch is how many words of working memory PackA needs.
const PackScratch = packStep * (run/4 + 2 + 2)

// packRow packs row r of a panel of h rows. Its sums go to the words of its lines in sums.
func (k *Blocks) packRow(dst, sums, x []float32, h, r int, scratch []float32) {
	bytes, scratch := scratch[:packStep*run/4], scratch[packStep*run/4:] // int8
	// int32: of the first and the second 16
	totals, scratch := scratch[:2*packStep], scratch[2*packStep:]
	scale, inverse := scratch[:packStep], scratch[packStep:]
	words, blocks := k.words(), len(x)/run
	record := h * (words + 2)
	offset := int32(k.offset())
	for from := 0; from < blocks; from += packStep {
		n := min(packStep, blocks-from)
		part := x[from*run : (from+n)*run]
		for s := range n {
			scale[s], inverse[s] = levels(k.largest(&part[s*run], run/8))
		}
		k.quantise(&bytes[0], &totals[0], &part[0], &inverse[0], n)
		for s := range n {
			at, q := dst[(from+s)*h*k.rowWords():][:h*k.rowWords()], bytes[s*run/4:][:run/4]
			first, second := int32(math.Float32bits(totals[2*s])), int32(math.Float32bits(totals[2*s+1]))
			lines := at[r:]
			for w, v := range q[:4] {
				lines[w*h] = v
			}
			if words == 4 {
				lines = lines[record-4*h:]
			}
			for w, v := range q[4:] {
				lines[(4+w)*h] = v
			}
			begin := at[words*h:]
			if words == run/4 {
				begin[r], begin[h+r] = math.Float32frombits(uint32(-offset*(first+second))), scale[s]
			} else {
				begin[r], begin[h+r] = math.Float32frombits(uint32(-offset*first)), scale[s]
				begin[record+r], begin[record+h+r] = math.Float32frombits(uint32(-offset*second)), scale[s]
			}
			if sums != nil {
				b := from + s
				sums[4*h*(b/4)+b%4] = scale[s] * float32(first+second)
			}
		}
	}
	if sums != nil {
		for b := blocks; b%4 != 0; b++ {
			sums[4*h*(b/4)+b%4] = 0
		}
	}
}
