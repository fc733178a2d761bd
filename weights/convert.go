package weights

import (
	"encoding/binary"
	"math"
	"slices"

	"unmask/internal/bfloat16"
	"unmask/internal/float16"
	"unmask/internal/quant"
)

// convertToFloat32 converts len(dst) elements of a float type or a block format. It returns the
// index of the first NaN or of the first finite value too large for float32, -1 if there is none.
//
// The fast readers only say whether there is a NaN at all; the index is searched for afterwards,
// in the rare case of an error, because a branch in their loops would cost as much as the loops.
func convertToFloat32(dst []float32, src []byte, d DType) (badIndex int) {
	hasNoNaN := false
	switch d {
	case F32:
		hasNoNaN = readFloat32(dst, src)
	case BF16:
		hasNoNaN = readBFloat16(dst, src)
	case F16:
		hasNoNaN = readFloat16(dst, src)
	case F64:
		for i := range dst {
			v := math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
			dst[i] = float32(v)
			if v != v || math.IsInf(float64(dst[i]), 0) && !math.IsInf(v, 0) {
				return i
			}
		}
		hasNoNaN = true
	default:
		q, _ := quant.Parse(string(d))
		quant.Decode(q, dst, src)
	}
	if hasNoNaN {
		return -1
	}
	return slices.IndexFunc(dst, func(v float32) bool { return v != v })
}

// readFloat32 converts float32 and reports whether no element is NaN. Without its sign, only a NaN
// plus the carry sets the sign bit, so the loop collects that bit and needs no branch.
//
// Loading a model does little else. src is cut to a known length, which saves checks of bounds.
func readFloat32(dst []float32, src []byte) (hasNoNaN bool) {
	var signs uint32
	src = src[:4*len(dst)]
	for i := range dst {
		b := binary.LittleEndian.Uint32(src[4*i : 4*i+4])
		dst[i] = math.Float32frombits(b)
		signs |= b&0x7fffffff + 0x007fffff
	}
	return signs>>31 == 0
}

// readBFloat16 is readFloat32 of bfloat16, four at a time.
func readBFloat16(dst []float32, src []byte) (hasNoNaN bool) {
	const (
		magnitude = 0x7fff7fff_7fff7fff
		carry     = 0x007f007f_007f007f
		sign      = 0x80008000_80008000
	)
	// Without its sign a NaN is above 0x7f80, infinity. Adding 0x7f carries it, and nothing less, into
	// the sign's place, where all are collected.
	var signs uint64
	for len(dst) >= 4 {
		b := binary.LittleEndian.Uint64(src)
		four := dst[:4:4]
		four[0], four[1] = bfloat16.Halves(math.Float32frombits(uint32(b)))
		four[2], four[3] = bfloat16.Halves(math.Float32frombits(uint32(b >> 32)))
		signs |= b&magnitude + carry
		dst = dst[4:]
		src = src[8:]
	}
	for i := range dst {
		b := binary.LittleEndian.Uint16(src[2*i:])
		dst[i] = bfloat16.Float32(b)
		signs |= uint64(b)&magnitude + carry
	}
	return signs&sign == 0
}

// readFloat16 is readFloat32 of half precision.
func readFloat16(dst []float32, src []byte) (hasNoNaN bool) {
	var signs uint16
	src = src[:2*len(dst)]
	for i := range dst {
		h := binary.LittleEndian.Uint16(src[2*i : 2*i+2])
		dst[i] = float16.Float32(h)
		signs |= h&0x7fff + 0x03ff
	}
	return signs>>15 == 0
}

// convertToInt64 converts len(dst) elements of an integer type or booleans. It returns the index of
// the first that does not fit int64, -1 if there is none.
func convertToInt64(dst []int64, src []byte, d DType) (badIndex int) {
	badIndex = -1
	for i := range dst {
		switch d {
		case I64, U64:
			dst[i] = int64(binary.LittleEndian.Uint64(src[8*i:]))
			if d == U64 && dst[i] < 0 && badIndex < 0 {
				badIndex = i
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
	return badIndex
}
