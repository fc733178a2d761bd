package nn

import (
	"math"

	"unmask/backend"
)

// Frequencies returns the angle for each position of `pairs` pairs of rotated numbers, theta to the
// power -j/pairs, in float32 as the published models compute them (Su et al. 2021, "RoFormer").
func Frequencies(theta float64, pairs int) []float32 {
	freq := make([]float32, pairs)
	for j := range freq {
		freq[j] = 1 / float32(math.Pow(theta, float64(float32(2*j)/float32(2*pairs))))
	}
	return freq
}

// NewRotary returns cosines and sines, times scale, for positions 0..length-1. Angles, cosines and
// sines are computed in float32, as in the published models.
func NewRotary(b backend.Backend, freq []float32, scale float32, length int) *backend.Rotary {
	half := len(freq)
	cos := make([]float32, length*half)
	sin := make([]float32, length*half)
	for p := range length {
		FillCosSin(cos[p*half:][:half], sin[p*half:][:half], freq, scale, p)
	}
	r := &backend.Rotary{Cos: b.New(length, half), Sin: b.New(length, half)}
	b.Write(r.Cos, 0, cos)
	b.Write(r.Sin, 0, sin)
	return r
}

// FillCosSin computes the cosines and sines of a position, [pairs] each.
func FillCosSin(cos, sin, freq []float32, scale float32, pos int) {
	for j, f := range freq {
		angle := float64(float32(pos) * f)
		cos[j] = float32(math.Cos(angle)) * scale
		sin[j] = float32(math.Sin(angle)) * scale
	}
}
