package dit

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// frequencies is the width of the timestep's sinusoidal embedding: cosines, then sines.
const frequencies = 256

// noiseEps is the constant of MDLM's log-linear schedule: sigma(t) = -log(1-(1-eps)t).
const noiseEps = 1e-3

// dense is a small layer [out, in] that runs on the host.
type dense struct {
	Weight weights.Param `weight:"weight"`
	Bias   weights.Param `weight:"bias"`

	w, b []float32
}

func newDense(in, out int) dense {
	return dense{Weight: weights.Param{Shape: []int{out, in}}, Bias: weights.Param{Shape: []int{out}}}
}

func (d *dense) load(l *nn.Loader) { d.w, d.b = l.Floats(&d.Weight), l.Floats(&d.Bias) }

func (d *dense) apply(x []float32) []float32 {
	y := make([]float32, len(d.b))
	for i := range y {
		sum := float64(d.b[i])
		for j, v := range d.w[i*len(x) : (i+1)*len(x)] {
			sum += float64(v) * float64(x[j])
		}
		y[i] = float32(sum)
	}
	return y
}

// timestep computes the conditioning vector from a noise level.
type timestep struct {
	In  dense `weight:"0"` // [cond, 256]
	Out dense `weight:"2"` // [cond, cond]
}

func newTimestep(cond int) timestep {
	return timestep{In: newDense(frequencies, cond), Out: newDense(cond, cond)}
}

func (t *timestep) load(l *nn.Loader) {
	t.In.load(l)
	t.Out.load(l)
}

// embed returns silu(mlp(sinusoid(sigma))) [cond].
func (t *timestep) embed(sigma float64) []float32 {
	e := make([]float32, frequencies)
	for i := range frequencies / 2 {
		freq := float32(math.Exp(-math.Log(10000) * float64(i) / (frequencies / 2)))
		angle := float64(float32(sigma) * freq)
		e[i], e[frequencies/2+i] = float32(math.Cos(angle)), float32(math.Sin(angle))
	}
	return silu(t.Out.apply(silu(t.In.apply(e))))
}

func silu(x []float32) []float32 {
	for i, v := range x {
		x[i] = float32(float64(v) / (1 + math.Exp(-float64(v))))
	}
	return x
}

// modulation is an adaLN layer: from the conditioning vector to chunks of [hidden].
type modulation struct {
	Layer  dense `weight:""`
	chunks int
}

func newModulation(cond, hidden, chunks int) modulation {
	return modulation{Layer: newDense(cond, chunks*hidden), chunks: chunks}
}

// load reads the layer. With a constant c it returns the chunks and keeps nothing; without it the
// chunks are nil.
func (m *modulation) load(l *nn.Loader, c []float32) [][]float32 {
	m.Layer.load(l)
	if c == nil {
		return make([][]float32, m.chunks)
	}
	chunks := m.split(m.Layer.apply(c))
	m.Layer.w, m.Layer.b = nil, nil
	return chunks
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
	for i, chunk := range mod.split(mod.Layer.apply(c)) {
		m.b.Write(dst[i], seq, chunk)
	}
}
