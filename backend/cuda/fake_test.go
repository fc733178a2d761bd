//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/internal/fakecuda"
)

// open returns a backend on the tests' own driver library. Every allocation ends at a page that
// cannot be accessed.
func open(t testing.TB) (*Backend, *fakecuda.Library) {
	t.Helper()
	l := fakecuda.Open(t)
	return openOn(t, l), l
}

func openOn(t testing.TB, l *fakecuda.Library) *Backend {
	t.Helper()
	b, err := New(Options{Library: l.Path, Exact: true})
	require.NoError(t, err)
	return b
}

// openAny is open for tests that also run on a GPU: there the library is nil, and calls are not
// counted. Kernels are chosen as for the emulated GPU's four multiprocessors, so that few rows are
// enough for large tiles.
func openAny(t testing.TB) (*Backend, *fakecuda.Library) {
	t.Helper()
	if !fakecuda.UsesGPU() {
		return open(t)
	}
	return openAs(t, "", 4), nil
}

// openAs opens a GPU and chooses kernels as for this number of multiprocessors, 0 for the GPU's
// own. library is fakecuda.DriverPath's.
func openAs(t testing.TB, library string, multiprocessors int) *Backend {
	t.Helper()
	b, err := New(Options{Library: library, Exact: true, Multiprocessors: multiprocessors})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// withoutHopper makes a device choose kernels as one that has only those of the PTX.
func withoutHopper(b *Backend) {
	for _, k := range kernels {
		if k.hopper {
			b.entries[k.index] = 0
		}
	}
}

var activateTwice = register("unmask_activate")

// relu appends a launch to the list.
func relu(b *Backend, x *tensor.Dense) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := x.DataSize()
	b.begin(activateTwice, grid{x: (n + 255) / 256}, 256, 0).tensor(x).long(int64(n)).
		int(int(backend.ReLU)).end()
}

func read(b *Backend, x *tensor.Dense) []float32 {
	v := make([]float32, x.DataSize())
	b.Read(v, x, 0)
	return v
}

// failing returns the error that f panics with.
func failing(f func()) (err error) {
	defer backend.Recover(&err)
	f()
	return nil
}
