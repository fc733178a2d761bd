package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/cuda"
	"unmask/backend/plain"
	"unmask/internal/fakecuda"
	"unmask/model"
)

// Device is a backend and precision to test, with the tolerance as a fraction of the largest
// result. New skips the test if there is no such device.
type Device struct {
	Name      string
	New       func(t testing.TB) backend.Backend
	Precision backend.Precision
	Tolerance float64
}

// Devices are the backends that every network is tested on.
var Devices = []Device{
	{"plain", func(testing.TB) backend.Backend { return plain.New() }, backend.F32, 1e-4},
	{"cpu", func(testing.TB) backend.Backend { return cpu.New(cpu.Options{}) }, backend.F32, 1e-4},
	{"cpu", func(testing.TB) backend.Backend { return cpu.New(cpu.Options{}) }, backend.BF16, 5e-2},
	{"cuda", openCUDA, backend.F32, 1e-4},
	{"cuda", openCUDA, backend.BF16, 5e-2},
}

// Slow reports whether a pass at the published sizes takes minutes, as on the reference device and
// on an emulated GPU.
func (d Device) Slow() bool { return d.Name == "plain" || d.Name == "cuda" && !fakecuda.UsesGPU() }

// gpu is what openCUDA has opened.
var gpu backend.Backend

// openCUDA opens the first GPU or, without one, an emulated one, once for all tests of a package.
func openCUDA(t testing.TB) backend.Backend {
	t.Helper()
	if !cuda.Supported {
		t.Skip("this build has no GPU support")
	}
	if gpu == nil {
		b, err := cuda.New(cuda.Options{Library: fakecuda.DriverPath(t)})
		require.NoError(t, err)
		gpu = b
	}
	return gpu
}

// RunEach loads every pack on every device and runs f as a subtest.
func RunEach(t *testing.T, packs []string,
	f func(t *testing.T, p *Pack, m model.Refiner, tolerance float64)) {
	runEachOpened(t, Open, packs, f)
}

// runEachOpened is RunEach with another function that opens a pack.
func runEachOpened(t *testing.T, open func(t testing.TB, name string) *Pack, packs []string,
	f func(t *testing.T, p *Pack, m model.Refiner, tolerance float64)) {
	for i, name := range packs {
		for _, d := range Devices {
			if i > 0 && d.Slow() && d.Precision != backend.F32 {
				continue // rounding is the kernels' matter: one pack of a network is enough
			}
			t.Run(name+"/"+d.Name+"/"+d.Precision.String(), func(t *testing.T) {
				p := open(t, name)
				if d.Slow() && p.Full() {
					t.Skip("minutes a pass")
				}
				m, err := model.Load(p.Source, model.Options{Backend: d.New(t), Precision: d.Precision})
				require.NoError(t, err)
				f(t, p, m.Denoiser.(model.Refiner), d.Tolerance)
			})
		}
	}
}
