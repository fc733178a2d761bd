package guide

import (
	"math"
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// headMixer mixes the inputs of an output head. It is the model.HeadMarginals of guided sequences.
type headMixer struct {
	g         *Guided
	inner     *model.HeadMarginals
	length    int32 // rows of a sequence
	marginals model.HeadMarginals

	c, u *tensor.Dense // [rows, width] inputs of the two passes

	scale *tensor.Dense // [sequences, width] w
	gate  *tensor.Dense // [sequences, width] -w
	zero  *tensor.Dense // [sequences, width]

	otherRows []int32           // rows of the other passes
	mixedAt   []int32           // their indexes in the mixture
	segments  []backend.Segment // runs of mixed rows of one sequence
	row       []float32         // [width]
}

// prepare gets ready to mix the marginals of a batch's two passes.
func (m *headMixer) prepare(g *Guided, inner *model.HeadMarginals, length int) {
	m.g = g
	m.inner = inner
	m.length = int32(length)
	m.marginals.Backend = inner.Backend
	m.marginals.Head = inner.Head
	m.marginals.Heads = inner.Heads
	m.marginals.Length = length
	m.marginals.Rows = len(g.w) * length
	if m.marginals.Project == nil {
		m.marginals.Project = m.project
	}

	b := inner.Backend
	n := len(g.w)
	width := inner.Width()
	if m.scale == nil || m.scale.Shape()[0] < n || m.scale.Shape()[1] != width {
		m.scale = b.New(n, width)
		m.gate = b.New(n, width)
		m.zero = b.New(n, width)
	}
	m.row = slices.Grow(m.row[:0], width)[:width]
	for i, w := range g.w {
		m.fillRow(float32(w))
		b.Write(m.scale, i, m.row)
		m.fillRow(-float32(w))
		b.Write(m.gate, i, m.row)
	}
}

// fillRow sets all of row to x.
func (m *headMixer) fillRow(x float32) {
	for j := range m.row {
		m.row[j] = x
	}
}

// project returns (1+w)c - wu for at most 1024 rows.
func (m *headMixer) project(rows []int32) *tensor.Dense {
	b := m.inner.Backend
	n := len(rows)
	width := m.inner.Width()
	if m.c == nil || m.c.Shape()[1] != width {
		m.c = nil
		m.u = nil
	}
	m.c = backend.Grow(b, m.c, n, width)
	m.u = backend.Grow(b, m.u, n, width)
	b.Gather(m.c, m.inner.Project(rows), nn.RowRange(0, n))

	m.findOtherRows(rows)
	if len(m.otherRows) == 0 {
		return m.c
	}
	b.Scatter(m.u, m.inner.Project(m.otherRows), m.mixedAt)
	b.Modulate(m.c, m.scale, m.zero, m.segments) // c(1+w) + 0
	b.GateAdd(m.c, m.u, m.gate, m.segments)      // + (-w)u
	return m.c
}

// findOtherRows sets otherRows, mixedAt and segments for the rows of a mixture. A segment is as
// long as it can be, because each is a kernel's call of its own.
func (m *headMixer) findOtherRows(rows []int32) {
	m.otherRows = m.otherRows[:0]
	m.mixedAt = m.mixedAt[:0]
	m.segments = m.segments[:0]
	for i, r := range rows {
		sequence := r / m.length
		other := m.g.otherPass[sequence]
		if other < 0 {
			continue
		}
		m.otherRows = append(m.otherRows, other*m.length+r%m.length)
		m.mixedAt = append(m.mixedAt, int32(i))

		if k := len(m.segments); k > 0 {
			last := &m.segments[k-1]
			if last.Seq == int(sequence) && last.Row+last.Rows == i {
				last.Rows++
				continue
			}
		}
		m.segments = append(m.segments, backend.Segment{Seq: int(sequence), Row: i, Rows: 1})
	}
}

// rowMixer mixes the logits, row by row, of models without an output head, such as exact ones.
type rowMixer struct {
	g        *Guided
	network  model.Marginals
	length   int32 // rows of a sequence
	outcomes int
}

// mixLogits returns the mixed logits of rows, [rows, columns].
func (s *rowMixer) mixLogits(rows []int32) (*model.Dense, error) {
	// The network is asked for rows and for the other passes' rows at once: otherAt is where in
	// askedRows the other pass of each row is. A row without one is mixed with itself, which leaves
	// it as it is.
	askedRows := append([]int32(nil), rows...)
	otherAt := make([]int, len(rows))
	for i, r := range rows {
		otherAt[i] = i
		if other := s.g.otherPass[r/s.length]; other >= 0 {
			otherAt[i] = len(askedRows)
			askedRows = append(askedRows, other*s.length+r%s.length)
		}
	}
	rowLogits := make([][]float32, len(askedRows))
	err := s.network.Visit(askedRows, func(i int, logits []float32) {
		rowLogits[i] = append([]float32(nil), logits...) // logits is the network's own memory
	})
	if err != nil {
		return nil, err
	}

	d := &model.Dense{Outcomes: s.outcomes}
	for i, r := range rows {
		mixRow(rowLogits[i], rowLogits[otherAt[i]], float32(s.g.w[r/s.length]))
		d.Columns = len(rowLogits[i])
		d.Logits = append(d.Logits, rowLogits[i]...)
	}
	return d, nil
}

// mixRow adds w(c-u) to c. Outcomes that the condition forbids stay forbidden: where both logits
// are -Inf, their difference would be NaN.
func mixRow(c, u []float32, w float32) {
	for x, unguided := range u {
		if w != 0 && !math.IsInf(float64(c[x]), -1) {
			c[x] += w * (c[x] - unguided)
		}
	}
}

// withMixed calls do with the mixed logits of rows and their indexes. Its errors name the rows of
// the caller.
func (s *rowMixer) withMixed(rows []int32, do func(d *model.Dense, indexes []int32) error) error {
	d, err := s.mixLogits(rows)
	if err != nil {
		return err
	}
	err = do(d, nn.RowRange(0, len(rows)))
	if e, ok := err.(*model.RowError); ok {
		return &model.RowError{Row: rows[e.Row], Length: int(s.length), Err: e.Err}
	}
	return err
}

// Stats implements model.Marginals.
func (s *rowMixer) Stats(rows []int32, o *model.Stats) error {
	return s.withMixed(rows, func(d *model.Dense, indexes []int32) error {
		return d.Stats(indexes, o)
	})
}

// Sample implements model.Marginals.
func (s *rowMixer) Sample(rows []int32, o *model.Draw) error {
	return s.withMixed(rows, func(d *model.Dense, indexes []int32) error {
		return d.Sample(indexes, o)
	})
}

// Visit implements model.Marginals.
func (s *rowMixer) Visit(rows []int32, visit func(i int, logits []float32)) error {
	return s.withMixed(rows, func(d *model.Dense, indexes []int32) error {
		return d.Visit(indexes, visit)
	})
}
