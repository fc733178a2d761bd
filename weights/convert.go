package weights

import (
	"encoding/binary"
	"math"
	"slices"

	"unmask/internal/bfloat16"
	"unmask/internal/float16"
	"unmask/internal/quant"
)

// toFloat32 converts len(dst) elements and returns the index of the first NaN or of the first
// finite value too large for float32, -1 if there is none.
func toFloat32(dst []float32, src []byte, d DType) (bad int) {
	clean := false
	switch d {
	case F32:
		clean = readFloat32(dst, src)
	case BF16:
		clean = readBFloat16(dst, src)
	case F16:
		clean = readFloat16(dst, src)
	case F64:
		for i := range dst {
			v := math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
			dst[i] = float32(v)
			if v != v || math.IsInf(float64(dst[i]), 0) && !math.IsInf(v, 0) {
				return i
			}
		}
		clean = true
	default:
		q, _ := quant.Parse(string(d))
		quant.Decode(q, dst, src)
	}
	if clean {
		return -1
	}
	return slices.IndexFunc(dst, func(v float32) bool { return v != v })
}

// readFloat32 reports whether no element is NaN: without its sign, only a NaN plus the carry sets
// the sign bit. Loading a model does little else; src of a known length saves checks of bounds.
func readFloat32(dst []float32, src []byte) (clean bool) {
	var seen uint32
	src = src[:4*len(dst)]
	for i := range dst {
		b := binary.LittleEndian.Uint32(src[4*i : 4*i+4])
		dst[i] = math.Float32frombits(b)
		seen |= b&0x7fffffff + 0x007fffff
	}
	return seen>>31 == 0
}

// readBFloat16 is readFloat32 of bfloat16, four at a time.
func readBFloat16(dst []float32, src []byte) (clean bool) {
	const magnitude, carry, sign = 0x7fff7fff_7fff7fff, 0x007f007f_007f007f, 0x80008000_80008000
	var seen uint64
	for ; len(dst) >= 4; dst, src = dst[4:], src[8:] {
		b, to := binary.LittleEndian.Uint64(src), dst[:4:4]
		to[0], to[1] = bfloat16.Halves(math.Float32frombits(uint32(b)))
		to[2], to[3] = bfloat16.Halves(math.Float32frombits(uint32(b >> 32)))
		seen |= b&magnitude + carry
	}
	for i := range dst {
		b := binary.LittleEndian.Uint16(src[2*i:])
		dst[i] = bfloat16.Float32(b)
		seen |= uint64(b)&magnitude + carry
	}
	return seen&sign == 0
}

// readFloat16 is readFloat32 of half precision.
func readFloat16(dst []float32, src []byte) (clean bool) {
	var seen uint16
	src = src[:2*len(dst)]
	for i := range dst {
		h := binary.LittleEndian.Uint16(src[2*i : 2*i+2])
		dst[i] = float16.Float32(h)
		seen |= h&0x7fff + 0x03ff
	}
	return seen>>15 == 0
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
