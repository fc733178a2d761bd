package weights

import (
	"encoding/binary"
	"math"
	"slices"

	"unmask/internal/float16"
	"unmask/internal/quant"
)

const expF32 = 0x7f800000 // exponent bits of infinity; a larger magnitude is NaN

// toFloat32 converts len(dst) elements and returns the index of the first NaN or of the first
// finite value too large for float32, -1 if there is none.
func toFloat32(dst []float32, src []byte, d DType) (bad int) {
	bad = -1
	switch d {
	case F32:
		if !readFloat32(dst, src) {
			bad = slices.IndexFunc(dst, func(v float32) bool { return v != v })
		}
	case BF16:
		for i := range dst {
			b := uint32(binary.LittleEndian.Uint16(src[2*i:2*i+2])) << 16
			dst[i] = math.Float32frombits(b)
			if b&^(1<<31) > expF32 && bad < 0 {
				bad = i
			}
		}
	case F16:
		for i := range dst {
			h := binary.LittleEndian.Uint16(src[2*i : 2*i+2])
			dst[i] = float16.Float32(h)
			if h&0x7fff > 0x7c00 && bad < 0 {
				bad = i
			}
		}
	case F64:
		for i := range dst {
			v := math.Float64frombits(binary.LittleEndian.Uint64(src[8*i : 8*i+8]))
			f := float32(v)
			dst[i] = f
			if bad < 0 && (v != v || math.IsInf(float64(f), 0) && !math.IsInf(v, 0)) {
				bad = i
			}
		}
	default:
		q, _ := quant.Parse(string(d))
		quant.Decode(q, dst, src)
		bad = slices.IndexFunc(dst, func(v float32) bool { return v != v })
	}
	return bad
}

// readFloat32 reports whether no element is NaN. It handles two at a time, because loading a model
// does little else: without the sign bits, only a NaN plus the carry sets the sign bit.
func readFloat32(dst []float32, src []byte) (clean bool) {
	const magnitude, carry, sign = 0x7fffffff_7fffffff, 0x007fffff_007fffff, 0x80000000_80000000
	var seen uint64
	n := len(dst) &^ 1
	for i := 0; i < n; i += 2 {
		b := binary.LittleEndian.Uint64(src[4*i:])
		dst[i], dst[i+1] = math.Float32frombits(uint32(b)), math.Float32frombits(uint32(b>>32))
		seen |= b&magnitude + carry
	}
	for i := n; i < len(dst); i++ {
		b := binary.LittleEndian.Uint32(src[4*i:])
		dst[i] = math.Float32frombits(b)
		seen |= uint64(b)&magnitude + carry
	}
	return seen&sign == 0
}

// toInt64 converts len(dst) elements and returns the index of the first that does not fit int64, -1
// if there is none.
func toInt64(dst []int64, src []byte, d DType) (bad int) {
	bad = -1
	for i := range dst {
		switch d {
		case I64, U64:
			dst[i] = int64(binary.LittleEndian.Uint64(src[8*i:]))
			if d == U64 && dst[i] < 0 && bad < 0 {
				bad = i
			}
		case I32:
			dst[i] = int64(int32(binary.LittleEndian.Uint32(src[4*i:])))
		case U32:
			dst[i] = int64(binary.LittleEndian.Uint32(src[4*i:]))
		case I16:
			dst[i] = int64(int16(binary.LittleEndian.Uint16(src[2*i:])))
		case U16:
			dst[i] = int64(binary.LittleEndian.Uint16(src[2*i:]))
		case I8:
			dst[i] = int64(int8(src[i]))
		default:
			dst[i] = int64(src[i])
		}
	}
	return bad
}
