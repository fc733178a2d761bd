package encoders

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// marginals are those of the latest pass, with special tokens forbidden.
type marginals struct {
	model.HeadMarginals
	raw model.HeadMarginals
}

// load sets up the head; bias [rows] is nil if the decoder has none.
func (s *marginals) load(m *Model, decoder backend.Matrix, bias []float32) {
	l := &nn.Loader{Backend: m.b}
	head := backend.Head{W: decoder, Bias: l.Vector(bias), Outcomes: m.cfg.Rows}
	s.raw = model.HeadMarginals{Backend: m.b, Head: head, Project: m.project}
	allowed := make([]float32, m.cfg.Rows)
	copy(allowed, bias)
	for _, id := range m.cfg.tokens.forbidden {
		allowed[id] = float32(math.Inf(-1))
	}
	head.Bias = l.Vector(allowed)
	s.HeadMarginals = model.HeadMarginals{Backend: m.b, Head: head, Project: m.project}
}

func (s *marginals) of(length int) *marginals {
	s.Length, s.raw.Length = length, length
	return s
}

// Raw implements model.Raw: the network's own logits, also of special tokens.
func (s *marginals) Raw() model.Marginals { return &s.raw }

// project returns the decoder's input [rows, embedding] for rows of the hidden states.
func (m *Model) project(rows []int32) *tensor.Dense {
	h, n, c := &m.head, len(rows), &m.cfg
	h[0] = nn.Grow(m.b, h[0], n, c.Hidden)
	h[1] = nn.Grow(m.b, h[1], n, c.Embed)
	m.b.Gather(h[0], m.hidden, rows)
	if c.Pre {
		m.Final.Apply(m.b, h[0], h[0], n)
	}
	m.Dense.Apply(m.b, h[1], h[0], n, c.HeadAct)
	m.HeadNorm.Apply(m.b, h[1], h[1], n)
	return h[1]
}
