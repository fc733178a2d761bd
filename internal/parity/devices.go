package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/plain"
	"unmask/model"
)

// Device is a backend and precision whose answers are compared, with the tolerance as a
// share of the largest answer.
type Device struct {
	Name      string
	New       func() backend.Backend
	Precision backend.Precision
	Tolerance float64
}

// Devices are the backends that every network is tested on. Plain is left out at the
// published sizes, where a pass takes it a minute.
var Devices = []Device{
	{"plain", func() backend.Backend { return plain.New() }, backend.F32, 1e-4},
	{"cpu", func() backend.Backend { return cpu.New(cpu.Options{}) }, backend.F32, 1e-4},
	{"cpu", func() backend.Backend { return cpu.New(cpu.Options{}) }, backend.BF16, 5e-2},
}

// Each loads every pack on every device and runs f as a subtest.
func Each(t *testing.T, packs []string, f func(t *testing.T, p *Pack, m model.Refiner, tolerance float64)) {
	for _, name := range packs {
		for _, d := range Devices {
			t.Run(name+"/"+d.Name+"/"+d.Precision.String(), func(t *testing.T) {
				p := Open(t, name)
				if d.Name == "plain" && p.Full() {
					t.Skip("a minute a pass")
				}
				m, err := model.Load(p.Source, model.Options{Backend: d.New(), Precision: d.Precision})
				require.NoError(t, err)
				f(t, p, m.Denoiser.(model.Refiner), d.Tolerance)
			})
		}
	}
}
