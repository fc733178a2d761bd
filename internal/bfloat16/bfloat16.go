// Package bfloat16 rounds to the upper half of a float32.
package bfloat16

import "math"

// Round rounds to nearest even; a NaN stays one.
func Round(x float32) uint16 {
	u := math.Float32bits(x)
	if x != x {
		return uint16(u>>16 | 0x40)
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// Float32 returns the value of h.
func Float32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// Halves returns the two values of a word.
func Halves(word float32) (low, high float32) {
	u := math.Float32bits(word)
	return math.Float32frombits(u << 16), math.Float32frombits(u &^ 0xffff)
}
