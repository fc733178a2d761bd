//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"

	"unmask/backend"
	"unmask/backend/backendtest"
	"unmask/internal/fakecuda"
)

// TestDevice runs the suite of all devices. On a GPU it runs twice: with the kernels that the GPU
// chooses for such small shapes, and with those that a GPU of few multiprocessors chooses, which
// are those of large shapes. The emulated GPU has four.
func TestDevice(t *testing.T) {
	library := fakecuda.Driver(t)
	backendtest.Run(t, func() backend.Backend { return openAs(t, library, 0) })
	if fakecuda.OnGPU() {
		t.Run("four multiprocessors", func(t *testing.T) {
			backendtest.Run(t, func() backend.Backend { return openAs(t, library, 4) })
		})
	}
}

// TestAllocations: no kernel of a step allocates.
func TestAllocations(t *testing.T) {
	library := fakecuda.Driver(t)
	backendtest.Allocations(t, func() backend.Backend { return openAs(t, library, 0) })
}
