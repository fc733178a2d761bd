// Package quant has the block formats of GGUF files: weights as small integers, with a scale for
// every 16 or 32 of them.
//
// Layouts are those of ggml-common.h and ggml-quants.c (https://github.com/ggml-org/ggml).
// Numbers are little-endian; d and m are float16.
//
//	Q8_0   32 values,  34 bytes: d, 32 int8                        y = d*q
//	Q4_0   32 values,  18 bytes: d, 16 bytes of two values         y = d*(q-8)
//	Q4_K  256 values, 144 bytes: d, m, 12 bytes of eight 6-bit scales and mins, 128 bytes
//	                                                               y = d*scale*q - m*min
//	Q5_K  256 values, 176 bytes: as Q4_K, and 32 bytes of fifth bits before the 128
//	Q6_K  256 values, 210 bytes: 128 bytes of low bits, 64 of high pairs, 16 int8 scales, d
//	                                                               y = d*scale*(q-32)
//	Q4_1   32 values,  20 bytes: d, m, 16 bytes of two values      y = d*q + m
//	Q5_0   32 values,  22 bytes: d, 4 bytes of fifth bits, 16 of two values
//	                                                               y = d*(q-16)
//	Q5_1   32 values,  24 bytes: d, m, 4 bytes of fifth bits, 16   y = d*q + m
//	IQ4_NL 32 values,  18 bytes: d, 16 bytes of two values         y = d*curve[q]
//	Q2_K  256 values,  84 bytes: 16 bytes of a 4-bit scale and min, 64 of four values, d, m
//	                                                               y = d*scale*q - m*min
//	Q3_K  256 values, 110 bytes: 32 bytes of third bits, 64 of four values, 12 of sixteen 6-bit
//	                             scales, d                         y = d*(scale-32)*(q-4)
//
// Products take the first five, see Types; the others are held in one of them, see ProductType.
package quant

import (
	"encoding/binary"
	"fmt"

	"unmask/internal/float16"
)

// Type is a block format.
type Type uint8

// The formats.
const (
	Q8_0 Type = iota
	Q4_0
	Q4_K
	Q5_K
	Q6_K
	Q4_1
	Q5_0
	Q5_1
	Q2_K
	Q3_K
	IQ4_NL
)

type layout struct {
	name string

	// values and bytes are those of a block.
	values int
	bytes  int

	// run is the number of values that share a scale.
	run int

	// signed, offset and mins are as the methods of Type.
	signed bool
	offset int
	mins   bool

	// scaleAt is the byte where d is; m follows it.
	scaleAt int

	// product is the format that products take, see ProductType.
	product Type
}

var layouts = [...]layout{
	Q8_0: {name: "Q8_0", values: 32, bytes: 34, run: 32, signed: true, product: Q8_0},
	Q4_0: {name: "Q4_0", values: 32, bytes: 18, run: 32, offset: 8, product: Q4_0},
	Q4_K: {name: "Q4_K", values: 256, bytes: 144, run: 32, mins: true, product: Q4_K},
	Q5_K: {name: "Q5_K", values: 256, bytes: 176, run: 32, mins: true, product: Q5_K},
	Q6_K: {name: "Q6_K", values: 256, bytes: 210, run: 16, offset: 32, scaleAt: 208, product: Q6_K},
	Q4_1: {name: "Q4_1", values: 32, bytes: 20, run: 32, mins: true, product: Q8_0},
	Q5_0: {name: "Q5_0", values: 32, bytes: 22, run: 32, offset: 16, product: Q8_0},
	Q5_1: {name: "Q5_1", values: 32, bytes: 24, run: 32, mins: true, product: Q8_0},
	Q2_K: {name: "Q2_K", values: 256, bytes: 84, run: 16, mins: true, scaleAt: 80, product: Q8_0},
	Q3_K: {name: "Q3_K", values: 256, bytes: 110, run: 16, offset: 4, scaleAt: 108, product: Q6_K},

	IQ4_NL: {name: "IQ4_NL", values: 32, bytes: 18, run: 32, signed: true, product: Q8_0},
}

// curve is the levels of IQ4_NL.
var curve = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// Types lists the formats that products take.
func Types() []Type { return []Type{Q8_0, Q4_0, Q4_K, Q5_K, Q6_K} }

// ProductType returns the format that products take in place of t: itself, one with the same values
// (Q8_0 for Q5_0 and IQ4_NL, Q6_K for Q3_K), or Q8_0, with values rounded to a 127th of the largest
// of 32 (for Q4_1, Q5_1 and Q2_K). See ConvertForProducts.
func (t Type) ProductType() Type { return layouts[t].product }

// LosesPrecision reports whether ProductType's format does not have the same values.
func (t Type) LosesPrecision() bool { return t != t.ProductType() && t.Mins() }

// Parse returns the format of a name such as Q4_K.
func Parse(name string) (Type, bool) {
	for t, l := range layouts {
		if l.name == name {
			return Type(t), true
		}
	}
	return 0, false
}

// String returns ggml's name of the format.
func (t Type) String() string {
	if int(t) < len(layouts) {
		return layouts[t].name
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// Values returns the number of values of a block, 32 or 256.
func (t Type) Values() int { return layouts[t].values }

// Bytes returns the size of a block.
func (t Type) Bytes() int { return layouts[t].bytes }

// Run returns the number of values that share a scale, 16 or 32.
func (t Type) Run() int { return layouts[t].run }

// Signed reports whether the integers are signed, as in Q8_0.
func (t Type) Signed() bool { return layouts[t].signed }

// Offset returns the number that is subtracted from the integers, such as 8 for Q4_0.
func (t Type) Offset() int { return layouts[t].offset }

// Mins reports whether a minimum is subtracted from each run of values, as in Q4_K.
func (t Type) Mins() bool { return layouts[t].mins }

// RowBytes returns the size of a row of width values, which must be whole blocks.
func (t Type) RowBytes(width int) int {
	l := layouts[t]
	if width < 0 || width%l.values != 0 {
		panic(fmt.Sprintf("quant: a row of %d values of %v, want a multiple of %d", width, t, l.values))
	}
	return width / l.values * l.bytes
}

// Block is a decoded block. Value i is
//
//	D*Scale[i/run]*(Q[i]-offset) - M*Min[i/run]
//
// where run and offset are the format's, and Scale is 1 in formats of 32 values.
type Block struct {
	D, M  float32
	Q     [256]uint8 // the bits of int8 in formats that are signed
	Scale [16]int8
	Min   [16]uint8
}

// Split decodes the first block of data. It writes only the fields that the format has.
func (b *Block) Split(t Type, data []byte) {
	l := layouts[t]
	data = data[:l.bytes]
	b.D = half(data[l.scaleAt:])
	b.M = 0
	if l.mins {
		b.M = half(data[l.scaleAt+2:])
	}
	switch t {
	case Q8_0:
		b.Scale[0] = 1
		copy(b.Q[:32], data[2:])
	case Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL:
		b.Scale[0] = 1
		if l.mins { // added, not subtracted
			b.M = -b.M
			b.Min[0] = 1
		}
		for i, v := range data[l.bytes-16:] {
			b.Q[i] = v & 15
			b.Q[16+i] = v >> 4
		}
		for i := range b.Q[:32] {
			switch t {
			case Q5_0, Q5_1:
				b.Q[i] |= data[l.bytes-20+i/8] >> (i % 8) & 1 << 4
			case IQ4_NL:
				b.Q[i] = uint8(curve[b.Q[i]])
			}
		}
	case Q4_K:
		b.scales(data)
		b.nibbles(data[16:])
	case Q5_K:
		b.scales(data)
		b.nibbles(data[48:])
		for i := 0; i < 256; i += 8 {
			v := binary.LittleEndian.Uint64(data[16+i%32:]) >> (i / 32) & 0x01010101_01010101 << 4
			binary.LittleEndian.PutUint64(b.Q[i:], binary.LittleEndian.Uint64(b.Q[i:])|v)
		}
	case Q6_K:
		b.split6(data)
	case Q2_K:
		for i, s := range data[:16] {
			b.Scale[i] = int8(s & 15)
			b.Min[i] = s >> 4
		}
		b.pairs(data[16:])
	case Q3_K:
		for i := range b.Scale {
			low := data[96+i%8] >> (i / 8 * 4) & 15
			high := data[104+i%4] >> (i / 4 * 2) & 3
			b.Scale[i] = int8(low|high<<4) - 32
		}
		b.pairs(data[32:])
		for i := range b.Q {
			b.Q[i] |= data[i%32] >> (i / 32) & 1 << 2
		}
	}
}

// pairs reads two runs of 128 values from 32 bytes each: the low pairs of bits first.
func (b *Block) pairs(data []byte) {
	for i := range b.Q {
		b.Q[i] = data[i/128*32+i%32] >> (i / 32 % 4 * 2) & 3
	}
}

// scales reads the eight 6-bit scales and mins of Q4_K and Q5_K.
func (b *Block) scales(data []byte) {
	s := data[4:16]
	for i := range 4 {
		b.Scale[i] = int8(s[i] & 63)
		b.Min[i] = s[i+4] & 63
		b.Scale[i+4] = int8(s[i+8]&15 | s[i]>>6<<4)
		b.Min[i+4] = s[i+8]>>4 | s[i+4]>>6<<4
	}
}

// nibbles reads four runs of 64 values from 32 bytes each: the low halves, then the high ones.
func (b *Block) nibbles(data []byte) {
	const mask = 0x0f0f0f0f_0f0f0f0f
	for r := range 4 {
		data := (*[32]byte)(data[32*r:]) // arrays, whose bounds the compiler knows
		q := (*[64]byte)(b.Q[64*r:])
		for i := 0; i < 32; i += 8 {
			v := binary.LittleEndian.Uint64(data[i : i+8])
			binary.LittleEndian.PutUint64(q[i:i+8], v&mask)
			binary.LittleEndian.PutUint64(q[i+32:i+40], v>>4&mask)
		}
	}
}

// split6 reads the levels and scales of Q6_K.
func (b *Block) split6(data []byte) {
	for h := range 2 {
		low := data[64*h:]
		high := data[128+32*h:]
		q := b.Q[128*h:]
		for i := 0; i < 128; i += 8 { // runs of 32: the low halves of 64 bytes, then the high ones
			v := binary.LittleEndian.Uint64(low[i%64:]) >> (i / 64 * 4) & 0x0f0f0f0f_0f0f0f0f
			v |= binary.LittleEndian.Uint64(high[i%32:]) >> (i / 32 * 2) & 0x03030303_03030303 << 4
			binary.LittleEndian.PutUint64(q[i:], v)
		}
	}
	for i, s := range data[192:208] {
		b.Scale[i] = int8(s)
	}
}

// Decode writes the values of blocks to dst, len(dst) of them, which must be whole blocks. They
// have the bits of ggml's reference: each product is rounded to float32, then the difference.
func Decode(t Type, dst []float32, data []byte) {
	l := layouts[t]
	var b Block
	for len(dst) > 0 {
		b.Split(t, data)
		for i := range dst[:l.values] {
			scale := float32(b.D * float32(b.Scale[i/l.run]))
			q := float32(int(b.Q[i]) - l.offset)
			if l.signed {
				q = float32(int8(b.Q[i]))
			}
			dst[i] = float32(scale * q)
			if l.mins {
				dst[i] -= float32(b.M * float32(b.Min[i/l.run]))
			}
		}
		dst = dst[l.values:]
		data = data[l.bytes:]
	}
}

// ConvertForProducts writes blocks of t to dst in the format that products take, t.ProductType(),
// as whole blocks of both. The scales must be finite.
func ConvertForProducts(t Type, dst, data []byte) {
	if t.LosesPrecision() {
		x := make([]float32, t.Values())
		size := t.Values() / 32 * Q8_0.Bytes()
		for len(data) > 0 {
			Decode(t, x, data[:t.Bytes()])
			Encode(Q8_0, dst[:size], x)
			data = data[t.Bytes():]
			dst = dst[size:]
		}
		return
	}

	product := t.ProductType()
	l := layouts[t]
	var b Block
	for len(data) > 0 {
		if t == product {
			copy(dst, data[:l.bytes])
		} else {
			b.Split(t, data)
			b.writeAs(product, dst[:product.Bytes()], data[l.scaleAt:l.scaleAt+2], l)
		}
		data = data[l.bytes:]
		dst = dst[product.Bytes():]
	}
}

// writeAs writes a block of layout l to dst as Q8_0 or Q6_K, with the same values. d is its scale
// as a float16, which stays as it is.
func (b *Block) writeAs(product Type, dst, d []byte, l layout) {
	clear(dst)
	copy(dst[layouts[product].scaleAt:], d)
	for i, q := range b.Q[:l.values] {
		level := int(q) - l.offset
		if product == Q8_0 {
			dst[2+i] = byte(int8(level))
		} else {
			put6(dst, i, level)
		}
	}
	if product == Q6_K {
		for i, s := range b.Scale {
			dst[192+i] = byte(s)
		}
	}
}

// Finite reports whether no block's scale is NaN or infinite. data is whole blocks.
func Finite(t Type, data []byte) bool {
	l := layouts[t]
	for ; len(data) > 0; data = data[l.bytes:] {
		if data[l.scaleAt+1]&0x7c == 0x7c || l.mins && data[l.scaleAt+3]&0x7c == 0x7c {
			return false
		}
	}
	return true
}

// half reads a float16.
func half(b []byte) float32 { return float16.Float32(binary.LittleEndian.Uint16(b)) }
