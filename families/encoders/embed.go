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

func (e *embedding) packTables(m *Model, l *nn.Loader) {
	c := &m.cfg
	e.words = l.Table(&m.Words)
	if c.TokenDropout {
		l.Backend.Write(e.words, int(c.Mask), make([]float32, c.Embed))
	}
	if c.Positions > 0 {
		position := l.Floats(&m.Positions)
		kind := l.Floats(&m.Types)
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

// embedRows writes the embeddings of p's rows to work.X.
func (m *Model) embedRows(p *model.Pass) {
	e := &m.embedding
	c := &m.cfg
	d := m.b
	n := p.Len()
	x := m.work.X
	if c.Widened {
		m.narrow = backend.Grow(d, m.narrow, n, c.Embed)
		x = m.narrow
	}
	d.Gather(x, e.words, p.Tokens)
	if c.TokenDropout {
		d.AddScaled(x, e.words, p.Tokens, e.rowScales(p))
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

// computeExcess finds what the scale of each sequence's embeddings has above 1: embeddings of
// unmasked tokens are multiplied by (1-trainedShare)/(1-share), where share is that of masks in the
// sequence, with <cls> and <eos> (modeling_esm.py, EsmEmbeddings, token_dropout).
func (e *embedding) computeExcess(b *model.Batch, mask int32) {
	e.excesses = e.excesses[:0]
	for i := range b.Size {
		used := b.UsedLength(i)
		masked := 0
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

// rowScales returns the factor of each row of a pass.
func (e *embedding) rowScales(p *model.Pass) []float32 {
	e.scale = e.scale[:0]
	for _, s := range p.Sequences {
		for range s.Rows {
			e.scale = append(e.scale, e.excesses[s.Seq])
		}
	}
	return e.scale
}

// newRotary returns cosines and sines of the angles with a base, or nil for a network with learned
// positions.
func (c *Config) newRotary(b backend.Backend, theta float64) *backend.Rotary {
	if c.Positions > 0 {
		return nil
	}
	return nn.NewRotary(b, nn.Frequencies(theta, c.Hidden/c.Heads/2), 1, c.Length)
}
