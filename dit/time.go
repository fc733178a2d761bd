package dit

import (
	"fmt"
	"math"

	"unmask/model"
	"unmask/nn"
)

// frequencies is the width of the noise level's sinusoidal embedding: cosines, then sines.
const frequencies = 256

// noiseEps is the constant of MDLM's log-linear schedule: sigma(t) = -log(1-(1-eps)t).
const noiseEps = 1e-3

// Timestep computes the conditioning vector from a noise level. It runs on the host, because it is
// small and runs once for each new noise level.
type Timestep struct {
	In  nn.Linear `weight:"0"` // [cond, 256]
	Out nn.Linear `weight:"2"` // [cond, cond]

	in, out nn.HostLinear
}

// NewTimestep returns the layers without weights, for vectors of cond numbers.
func NewTimestep(cond int) Timestep {
	return Timestep{In: nn.NewLinear(frequencies, cond), Out: nn.NewLinear(cond, cond)}
}

// Load packs the layers.
func (t *Timestep) Load(l *nn.Loader) {
	t.in = l.HostLinear(&t.In)
	t.out = l.HostLinear(&t.Out)
}

// Embed returns mlp(sinusoid(sigma)) [cond], before its activation.
func (t *Timestep) Embed(sigma float64) []float32 {
	e := make([]float32, frequencies)
	for i := range frequencies / 2 {
		// in float32, as the published models compute it
		freq := float32(math.Exp(-math.Log(10000) * float64(i) / (frequencies / 2)))
		angle := float64(float32(sigma) * freq)
		e[i] = float32(math.Cos(angle))
		e[frequencies/2+i] = float32(math.Sin(angle))
	}
	return t.out.Apply(nn.SiLU(t.in.Apply(e)))
}

// beginBatch finds the slots of the modulations of a batch's times. A new time's modulation is
// computed once, for all of its passes.
func (m *Model) beginBatch(b *model.Batch) error {
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
		return m.Sigma.Embed(-math.Log1p(-(1 - noiseEps) * t.(float64)))
	})
	return nil
}
