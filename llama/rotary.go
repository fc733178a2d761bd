package llama

import (
	"math"

	"unmask/backend"
)

// rotary returns the angles of positions 0..length-1: frequencies, angles, cosines and sines are
// float32, as the published models hold them.
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
