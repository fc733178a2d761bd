package llama

import (
	"math"
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// marginals are those of the latest pass, shifted if the model's are, with the mask forbidden.
type marginals struct {
	model.HeadMarginals
	raw model.HeadMarginals
}

func (s *marginals) load(m *Model, head backend.Matrix) {
	forbidden := make([]float32, m.cfg.Rows)
	forbidden[m.cfg.Mask] = float32(math.Inf(-1))
	bias := m.b.New(m.cfg.Rows)
	m.b.Write(bias, 0, forbidden)
	s.raw = model.HeadMarginals{Backend: m.b, Head: backend.Head{W: head, Outcomes: m.cfg.Vocab},
		Project: func(rows []int32) *tensor.Dense { return m.project(rows, rows) }}
	var from []int32
	s.HeadMarginals = model.HeadMarginals{Backend: m.b,
		Head: backend.Head{W: head, Bias: bias, Outcomes: m.cfg.Vocab},
		Project: func(rows []int32) *tensor.Dense {
			from = m.source(from[:0], rows, s.Length)
			return m.project(from, rows)
		}}
}

func (s *marginals) of(length int) *marginals {
	s.Length, s.raw.Length = length, length
	return s
}

// Raw implements model.Raw: the network's own rows, with a logit for the mask.
func (s *marginals) Raw() model.Marginals { return &s.raw }

// project returns the head's input: the final norm of rows of the hidden states.
func (m *Model) project(from, rows []int32) *tensor.Dense {
	w := m.work
	w.head = nn.Grow(m.b, w.head, len(rows), m.cfg.Hidden)
	m.b.Gather(w.head, w.hidden, from)
	m.Final.Apply(m.b, w.head, w.head, len(rows))
	return w.head
}

// source appends the rows whose outputs predict the given rows: if the model is shifted, the rows
// before, except that position 0 keeps its own.
func (m *Model) source(to, rows []int32, length int) []int32 {
	for _, r := range rows {
		if m.cfg.Shift && int(r)%length > 0 {
			r--
		}
		to = append(to, r)
	}
	return to
}

// shifted returns b with the rows read that predict those in b.Read.
func (m *Model) shifted(b *model.Batch) *model.Batch {
	if !m.cfg.Shift || b.Read == nil {
		return b
	}
	s := *b
	s.Read = m.source([]int32{}, b.Read, b.Length)
	return &s
}

// before returns rows and, if the model is shifted, the rows that predict them, ascending.
func (m *Model) before(rows []int32, length int) []int32 {
	if !m.cfg.Shift {
		return rows
	}
	all := m.source(slices.Clone(rows), rows, length)
	slices.Sort(all)
	return slices.Compact(all)
}
