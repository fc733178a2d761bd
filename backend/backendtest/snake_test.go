package backendtest

import (
	"math"

	"unmask/backend"
)

// snake tests a backend.SnakeActivation: rows in any order, rows of zeros, large arguments.
func snake(s *suite) {
	dev, ok := s.dev.(backend.SnakeActivation)
	if !ok {
		s.Skip("no backend.SnakeActivation")
	}
	for _, channels := range []int{1, 3, 16, 37} {
		x := s.fill(func(i int) float32 { return s.normal(i) * float32(1+i%40) }, 1, 50*channels)
		alpha := s.fill(func(int) float32 { return 0.3 + 2*s.rand.Float32() }, 2, channels)
		dst := s.random(1, 61*channels)
		var from []int32
		for i := range 60 {
			from = append(from, int32(i*7%51)-1)
		}
		dev.Snake(dst.dev, x.dev, from, alpha.dev)
		s.ref.(backend.SnakeActivation).Snake(dst.ref, x.ref, from, alpha.ref)
		dst.near(name("%d channels", channels),
			func(i int) float64 { return 4 * eps * (150 + math.Abs(float64(dst.want()[i]))) })
	}
}
