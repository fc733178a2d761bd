//go:build linux && (amd64 || arm64) && !nocuda

package backendtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cuda"
	"unmask/internal/fakecuda"
)

// onGPU opens a GPU and chooses kernels as for this number of multiprocessors, 0 for the GPU's own.
// library is fakecuda.DriverPath's.
func onGPU(t *testing.T, library string, multiprocessors int) func() backend.Backend {
	return func() backend.Backend {
		b, err := cuda.New(cuda.Options{Library: library, Exact: true, Multiprocessors: multiprocessors})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b
	}
}

// On a GPU the suite runs twice: with the kernels that the GPU chooses for such small shapes, and
// with those that a GPU of few multiprocessors chooses, which are those of large shapes. The
// emulated GPU has four.
func TestCUDA(t *testing.T) {
	library := fakecuda.DriverPath(t)
	testDevice(t, onGPU(t, library, 0))
	if fakecuda.UsesGPU() {
		t.Run("four multiprocessors", func(t *testing.T) { testDevice(t, onGPU(t, library, 4)) })
	}
}

// No kernel of a step allocates.
func TestAllocationsOnCUDA(t *testing.T) {
	testAllocations(t, onGPU(t, fakecuda.DriverPath(t), 0))
}
