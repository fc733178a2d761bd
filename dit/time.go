package dit

import (
	"math"

	"gorgonia.org/tensor"

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

	in, out nn.Host
}

func newTimestep(cond int) timestep {
	return timestep{In: nn.NewLinear(frequencies, cond), Out: nn.NewLinear(cond, cond)}
}

func (t *timestep) load(l *nn.Loader) {
	t.in, t.out = l.Host(&t.In), l.Host(&t.Out)
}

// embed returns silu(mlp(sinusoid(sigma))) [cond].
func (t *timestep) embed(sigma float64) []float32 {
	e := make([]float32, frequencies)
	for i := range frequencies / 2 {
		freq := float32(math.Exp(-math.Log(10000) * float64(i) / (frequencies / 2)))
		angle := float64(float32(sigma) * freq)
		e[i], e[frequencies/2+i] = float32(math.Cos(angle)), float32(math.Sin(angle))
	}
	return nn.SiLU(t.out.Apply(nn.SiLU(t.in.Apply(e))))
}

// modulation is an adaLN layer: from the conditioning vector to chunks of [hidden].
type modulation struct {
	Layer nn.Linear `weight:""`

	host   nn.Host
	chunks int
}

func newModulation(cond, hidden, chunks int) modulation {
	return modulation{Layer: nn.NewLinear(cond, chunks*hidden), chunks: chunks}
}

// load reads the layer. With a constant c it returns the chunks and keeps nothing; without it the
// chunks are nil.
func (m *modulation) load(l *nn.Loader, c []float32) [][]float32 {
	host := l.Host(&m.Layer)
	if c == nil {
		m.host = host
		return make([][]float32, m.chunks)
	}
	return m.split(host.Apply(c))
}

func (m *modulation) split(y []float32) [][]float32 {
	n := len(y) / m.chunks
	chunks := make([][]float32, m.chunks)
	for i := range chunks {
		chunks[i] = y[i*n : (i+1)*n]
	}
	return chunks
}

// modulations are the chunks of all blocks for a batch, [batch, hidden] each; those of the output
// layer come last.
type modulations struct {
	time   []float64 // the times they were computed for
	blocks [][]*tensor.Dense
}

func (m *modulations) of(block, chunk int) *tensor.Dense { return m.blocks[block][chunk] }

// modulate sets m.mods to the modulations of a batch's times. It computes those that changed.
func (m *Model) modulate(b *model.Batch) {
	s := m.mods
	if s == nil || len(s.time) < b.Size {
		s = &modulations{time: make([]float64, b.Size)}
		for i := range s.time {
			s.time[i] = math.NaN()
		}
		for i := range m.Blocks {
			s.blocks = append(s.blocks, m.newChunks(&m.Blocks[i].Mod, b.Size))
		}
		s.blocks = append(s.blocks, m.newChunks(&m.FinalMod, b.Size))
		m.mods = s
	}
	for seq, t := range b.Time {
		if s.time[seq] == t {
			continue
		}
		s.time[seq] = t
		c := m.Sigma.embed(-math.Log1p(-(1 - noiseEps) * t))
		for i := range m.Blocks {
			m.write(s.blocks[i], &m.Blocks[i].Mod, seq, c)
		}
		m.write(s.blocks[len(m.Blocks)], &m.FinalMod, seq, c)
	}
}

func (m *Model) newChunks(mod *modulation, batch int) []*tensor.Dense {
	chunks := make([]*tensor.Dense, mod.chunks)
	for i := range chunks {
		chunks[i] = m.b.New(batch, m.cfg.Hidden)
	}
	return chunks
}

func (m *Model) write(dst []*tensor.Dense, mod *modulation, seq int, c []float32) {
	for i, chunk := range mod.split(mod.host.Apply(c)) {
		m.b.Write(dst[i], seq, chunk)
	}
}
