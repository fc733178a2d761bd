package encoders

import (
	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// embedding is the tables on the device.
type embedding struct {
	words *tensor.Dense // [rows, width]

	// position is [length, width], with the first token type added: texts have no second segment
	// here. It is nil with rotary positions.
	position *tensor.Dense

	// excesses are what the scales of the batch's sequences have above 1 [sequences].
	excesses []float32

	// excessOfRow is the same for each row of the pass [rows].
	excessOfRow []float32
}

// packTables writes the tables to the device.
func (e *embedding) packTables(m *Model, l *nn.Loader) {
	c := &m.cfg
	e.words = l.Table(&m.Words)
	if c.TokenDropout { // as the authors' class does, masks have no embedding
		l.Backend.Write(e.words, int(c.Mask), make([]float32, c.Embed))
	}
	if c.Positions > 0 {
		position := l.Floats(&m.Positions)[c.Offset*c.Embed:]
		if tokenType := l.Floats(&m.Types); tokenType != nil {
			for i := range position {
				position[i] += tokenType[i%c.Embed]
			}
		}
		e.position = l.Backend.New(c.Positions-c.Offset, c.Embed)
		l.Backend.Write(e.position, 0, position)
	}
	l.Load(&m.EmbedNorm, &m.Widen)
}

// embedRows writes the embeddings of p's rows to work.X [rows, hidden].
func (m *Model) embedRows(p *model.Pass) {
	m.embedTokens(p.Tokens, p)
}

// embedTokens is embedRows for some tokens. p may be nil for a network whose embeddings depend on
// tokens alone.
func (m *Model) embedTokens(tokens []int32, p *model.Pass) {
	e := &m.embedding
	c := &m.cfg
	b := m.b
	n := len(tokens)
	x := m.work.X // [rows, embedding], which is the network's width unless embeddings are widened
	if c.Widened {
		m.narrow = backend.Grow(b, m.narrow, n, c.Embed)
		x = m.narrow
	}
	b.Gather(x, e.words, tokens)
	if c.TokenDropout {
		b.AddScaled(x, e.words, tokens, e.rowExcesses(p)) // x *= 1 + excess
	}
	if e.position != nil {
		b.AddRows(x, e.position, p.Pos)
	}
	if c.EmbedNorm {
		m.EmbedNorm.Apply(b, x, x, n)
	}
	if c.Widened {
		m.Widen.Apply(b, m.work.X, x, n, backend.Identity) // [rows, hidden]
	}
}

// trainedShare is the share of masks in ESM-2's training: 15 % of tokens, 80 % of these as <mask>.
const trainedShare = 0.15 * 0.8

// computeExcess sets excesses: by how much the scale of each sequence's embeddings is above 1.
// Embeddings of unmasked tokens are multiplied by (1-trainedShare)/(1-share), where share is that
// of masks in the sequence, with <cls> and <eos> (modeling_esm.py, EsmEmbeddings, token_dropout).
func (e *embedding) computeExcess(b *model.Batch, mask int32) {
	e.excesses = e.excesses[:0]
	for i := range b.Size {
		length := b.UsedLength(i)
		masked := 0
		for _, token := range b.Tokens[i*b.Length:][:length] {
			if token == mask {
				masked++
			}
		}
		excess := float32(0)
		if masked < length {
			excess = (1-trainedShare)/(1-float32(masked)/float32(length)) - 1
		}
		e.excesses = append(e.excesses, excess)
	}
}

// rowExcesses returns the excess of each row of a pass.
func (e *embedding) rowExcesses(p *model.Pass) []float32 {
	e.excessOfRow = e.excessOfRow[:0]
	for _, s := range p.Sequences {
		for range s.Rows {
			e.excessOfRow = append(e.excessOfRow, e.excesses[s.Seq])
		}
	}
	return e.excessOfRow
}

// newRotary returns cosines and sines of the angles with a base, or nil for a network with learned
// positions.
func (c *Config) newRotary(b backend.Backend, theta float64) *backend.Rotary {
	if c.Positions > 0 {
		return nil
	}
	return nn.NewRotary(b, nn.Frequencies(theta, c.Hidden/c.Heads/2), 1, c.Length)
}
