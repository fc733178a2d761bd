package encoders

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// embedding is the tables on the device.
type embedding struct {
	words    *tensor.Dense // [rows, width]
	position *tensor.Dense // [length, width], with the first token type; nil with rotary positions

	excesses []float32 // [sequences] of the batch
	scale    []float32 // [rows] of the pass
}

func (e *embedding) load(m *Model, l *nn.Loader) {
	c := &m.cfg
	e.words = l.Table(&m.Words)
	if c.Dropout {
		l.Backend.Write(e.words, int(c.Mask), make([]float32, c.Embed))
	}
	if c.Positions > 0 {
		position, kind := l.Floats(&m.Positions), l.Floats(&m.Types)
		position = position[c.Offset*c.Embed:]
		if kind != nil {
			for i := range position {
				position[i] += kind[i%c.Embed]
			}
		}
		e.position = l.Backend.New(c.Positions-c.Offset, c.Embed)
		l.Backend.Write(e.position, 0, position)
	}
	l.Load(&m.EmbedNorm, &m.Widen)
}

// embed writes the embeddings of p's rows to work.X.
func (m *Model) embed(p *model.Pass) {
	e, c, d, n := &m.embedding, &m.cfg, m.b, p.Len()
	x := m.work.X
	if c.Widened {
		m.narrow = backend.Grow(d, m.narrow, n, c.Embed)
		x = m.narrow
	}
	d.Gather(x, e.words, p.Tokens)
	if c.Dropout {
		d.AddScaled(x, e.words, p.Tokens, e.scales(p))
	}
	if e.position != nil {
		d.AddRows(x, e.position, p.Pos)
	}
	if c.EmbedNorm {
		m.EmbedNorm.Apply(d, x, x, n)
	}
	if c.Widened {
		m.Widen.Apply(d, m.work.X, x, n, backend.Identity)
	}
}

// trainedShare is the share of masks in ESM-2's training: 15 % of tokens, 80 % of these as <mask>.
const trainedShare = 0.15 * 0.8

// excess finds what the scale of each sequence's embeddings has above 1: embeddings of unmasked
// tokens are multiplied by (1-trainedShare)/(1-share), where share is that of masks in the
// sequence, with <cls> and <eos> (modeling_esm.py, EsmEmbeddings, token_dropout).
func (e *embedding) excess(b *model.Batch, mask int32) {
	e.excesses = e.excesses[:0]
	for i := range b.Size {
		used, masked := b.UsedLength(i), 0
		for _, t := range b.Tokens[i*b.Length:][:used] {
			if t == mask {
				masked++
			}
		}
		excess := float32(0)
		if masked < used {
			excess = (1-trainedShare)/(1-float32(masked)/float32(used)) - 1
		}
		e.excesses = append(e.excesses, excess)
	}
}

// scales returns the factor of each row of a pass.
func (e *embedding) scales(p *model.Pass) []float32 {
	e.scale = e.scale[:0]
	for _, s := range p.Sequences {
		for range s.Rows {
			e.scale = append(e.scale, e.excesses[s.Seq])
		}
	}
	return e.scale
}

// rotary returns cosines and sines of the angles with a base, or nil for a network with learned
// positions.
func (c *Config) rotary(b backend.Backend, theta float64) *backend.Rotary {
	if c.Positions > 0 {
		return nil
	}
	return nn.NewRotary(b, nn.Frequencies(theta, c.Hidden/c.Heads/2), 1, c.Length)
}
