package cpu

import (
	"testing"

	"unmask/backend"
	"unmask/backend/backendtest"
	"unmask/backend/plain"
	"unmask/internal/parallel"
	"unmask/internal/simd"
)

// partial has the kernels of vectors, and all others from the reference device.
type partial struct {
	vectors
	rest
}

type rest struct{ backend.Backend }

// TestVectors runs the suite with every instruction set, and more threads than items.
func TestVectors(t *testing.T) {
	for _, level := range simd.Available() {
		for _, threads := range []int{1, 3} {
			t.Run(level.String(), func(t *testing.T) {
				backendtest.Run(t, func() backend.Backend {
					p := &partial{rest: rest{plain.New()}}
					p.init(parallel.New(threads), level)
					return p
				})
			})
		}
	}
}
