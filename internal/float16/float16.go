// Package float16 converts IEEE half precision.
package float16

import "math"

// Float32 returns the value of h. It is exact: of a subnormal, moving the fraction into a float32
// divides the value by 2^112, and one product takes that back.
func Float32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	u := uint32(h&0x7fff) << 13
	switch h & 0x7c00 {
	case 0: // zero or subnormal
		u = math.Float32bits(math.Float32frombits(u) * 0x1p112)
	case 0x7c00: // infinite or NaN
		u |= 0x7f800000
	default:
		u += 0x38000000 // the exponents' biases differ by 112
	}
	return math.Float32frombits(sign | u)
}

// Round rounds to nearest even; a NaN stays one.
func Round(x float32) uint16 {
	bits := math.Float32bits(x)
	sign := uint16(bits >> 16 & 0x8000)
	u := bits & 0x7fffffff // the magnitude
	switch {
	case u > 0x7f800000:
		return sign | 0x7e00
	case u >= 0x47800000: // 65536 and beyond
		return sign | 0x7c00
	case u < 0x38800000: // subnormal: adding 0.5 rounds at the last place, 2^-24
		f := math.Float32frombits(u) + 0.5
		return sign | uint16(math.Float32bits(f)-0x3f000000)
	}
	u += 0xfff + u>>13&1
	return sign | uint16((u-0x38000000)>>13)
}
