package dit

import (
	"fmt"
	"math"

	"unmask/model"
	"unmask/nn"
)

// frequencies is the width of the timestep's sinusoidal embedding: cosines, then sines.
const frequencies = 256

// noiseEps is the constant of MDLM's log-linear schedule: sigma(t) = -log(1-(1-eps)t).
const noiseEps = 1e-3

// timestep computes the conditioning vector from a noise level.
type timestep struct {
	In  nn.Linear `weight:"0"` // [cond, 256]
	Out nn.Linear `weight:"2"` // [cond, cond]

	in, out nn.HostLinear
}

func (t *timestep) load(l *nn.Loader) {
	t.in, t.out = l.HostLinear(&t.In), l.HostLinear(&t.Out)
}

// embed returns mlp(sinusoid(sigma)) [cond], before its activation.
func (t *timestep) embed(sigma float64) []float32 {
	e := make([]float32, frequencies)
	for i := range frequencies / 2 {
		freq := float32(math.Exp(-math.Log(10000) * float64(i) / (frequencies / 2)))
		angle := float64(float32(sigma) * freq)
		e[i], e[frequencies/2+i] = float32(math.Cos(angle)), float32(math.Sin(angle))
	}
	return t.out.Apply(nn.SiLU(t.in.Apply(e)))
}

// begin finds the modulations of a batch's times.
func (m *Model) begin(b *model.Batch) error {
	if !m.cfg.TimeConditioned {
		return nil
	}
	if len(b.Time) != b.Size {
		return fmt.Errorf("the model is time-conditioned: %d times for %d sequences", len(b.Time), b.Size)
	}
	m.times = m.times[:0]
	for _, t := range b.Time {
		m.times = append(m.times, t)
	}
	m.slots = m.mods.AssignSlots(m.slots, m.times, func(t any) []float32 {
		return m.Sigma.embed(-math.Log1p(-(1 - noiseEps) * t.(float64)))
	})
	return nil
}
