package llama

import (
	"math"

	"unmask/backend"
)

// rotary returns cosines and sines for positions 0..length-1. Frequencies, angles, cosines and
// sines are computed in float32, as in the published models.
func (c *Config) rotary(b backend.Backend, length int) *backend.Rotary {
	half := c.Rotary / 2
	cos, sin := make([]float32, length*half), make([]float32, length*half)
	for j := range half {
		freq := 1 / float32(math.Pow(c.Theta, float64(float32(2*j)/float32(2*half))))
		for p := range length {
			angle := float64(float32(p) * freq)
			cos[p*half+j], sin[p*half+j] = float32(math.Cos(angle)), float32(math.Sin(angle))
		}
	}
	r := &backend.Rotary{Cos: b.New(length, half), Sin: b.New(length, half)}
	b.Write(r.Cos, 0, cos)
	b.Write(r.Sin, 0, sin)
	return r
}
