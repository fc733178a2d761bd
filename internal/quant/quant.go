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
)

type layout struct {
	name          string
	values, bytes int // of a block
	run           int // values that share a scale
	signed        bool
	offset        int // subtracted from the integers
	mins          bool
}

var layouts = [...]layout{
	Q8_0: {name: "Q8_0", values: 32, bytes: 34, run: 32, signed: true},
	Q4_0: {name: "Q4_0", values: 32, bytes: 18, run: 32, offset: 8},
	Q4_K: {name: "Q4_K", values: 256, bytes: 144, run: 32, mins: true},
	Q5_K: {name: "Q5_K", values: 256, bytes: 176, run: 32, mins: true},
	Q6_K: {name: "Q6_K", values: 256, bytes: 210, run: 16, offset: 32},
}

// Types lists all formats.
func Types() []Type { return []Type{Q8_0, Q4_0, Q4_K, Q5_K, Q6_K} }

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

// Offset returns the number that is subtracted from the integers: 8 for Q4_0, 32 for Q6_K, 0 for
// the others.
func (t Type) Offset() int { return layouts[t].offset }

// Mins reports whether a minimum is subtracted from each run of values, as in Q4_K and Q5_K.
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
	Q     [256]uint8 // in Q8_0 the bits of int8
	Scale [16]int8
	Min   [16]uint8
}

// Split decodes the first block of data. It writes only the fields that the format has.
func (b *Block) Split(t Type, data []byte) {
	data = data[:layouts[t].bytes]
	b.M = 0
	switch t {
	case Q8_0:
		b.D, b.Scale[0] = half(data), 1
		copy(b.Q[:32], data[2:])
	case Q4_0:
		b.D, b.Scale[0] = half(data), 1
		for i, v := range data[2:] {
			b.Q[i], b.Q[16+i] = v&15, v>>4
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
	}
}

// scales reads D, M and the eight 6-bit scales and mins of Q4_K and Q5_K.
func (b *Block) scales(data []byte) {
	b.D, b.M = half(data), half(data[2:])
	s := data[4:16]
	for i := range 4 {
		b.Scale[i], b.Min[i] = int8(s[i]&63), s[i+4]&63
		b.Scale[i+4] = int8(s[i+8]&15 | s[i]>>6<<4)
		b.Min[i+4] = s[i+8]>>4 | s[i+4]>>6<<4
	}
}

// nibbles reads four runs of 64 values from 32 bytes each: the low halves, then the high ones.
func (b *Block) nibbles(data []byte) {
	const mask = 0x0f0f0f0f_0f0f0f0f
	for i := 0; i < 128; i += 8 {
		v, q := binary.LittleEndian.Uint64(data[i:]), b.Q[i/32*64+i%32:]
		binary.LittleEndian.PutUint64(q, v&mask)
		binary.LittleEndian.PutUint64(q[32:], v>>4&mask)
	}
}

func (b *Block) split6(data []byte) {
	b.D = half(data[208:])
	for h := range 2 {
		low, high, q := data[64*h:], data[128+32*h:], b.Q[128*h:]
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
		dst, data = dst[l.values:], data[l.bytes:]
	}
}

// Finite reports whether no block's scale is NaN or infinite. data is whole blocks.
func Finite(t Type, data []byte) bool {
	at := 0
	if t == Q6_K {
		at = 208
	}
	for ; len(data) > 0; data = data[layouts[t].bytes:] {
		if data[at+1]&0x7c == 0x7c || layouts[t].mins && data[3]&0x7c == 0x7c {
			return false
		}
	}
	return true
}

// half reads a float16.
func half(b []byte) float32 { return float16.Float32(binary.LittleEndian.Uint16(b)) }
