package guide

import (
	"math"
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
)

// mixed mixes the inputs of an output head.
type mixed struct {
	g         *Guided
	inner     *model.HeadMarginals
	length    int32
	marginals model.HeadMarginals

	c, u        *tensor.Dense // [rows, width]
	scale, gate *tensor.Dense // [sequences, width]
	zero        *tensor.Dense // [sequences, width]
	from, at    []int32       // rows of the other pass, and their indexes in the mixture
	segs        []backend.Segment
	row         []float32 // [width]
}

// of prepares to mix the marginals of a batch's two passes.
func (m *mixed) of(g *Guided, inner *model.HeadMarginals, length int) {
	m.g, m.inner, m.length = g, inner, int32(length)
	m.marginals.Backend, m.marginals.Head, m.marginals.Length = inner.Backend, inner.Head, length
	m.marginals.Heads, m.marginals.Rows = inner.Heads, len(g.w)*length
	if m.marginals.Project == nil {
		m.marginals.Project = m.project
	}
	width := inner.Width()
	b, n := inner.Backend, len(g.w)
	if m.scale == nil || m.scale.Shape()[0] < n || m.scale.Shape()[1] != width {
		m.scale, m.gate, m.zero = b.New(n, width), b.New(n, width), b.New(n, width)
	}
	m.row = slices.Grow(m.row[:0], width)[:width]
	for i, w := range g.w {
		for j := range m.row {
			m.row[j] = float32(w)
		}
		b.Write(m.scale, i, m.row)
		for j := range m.row {
			m.row[j] = -float32(w)
		}
		b.Write(m.gate, i, m.row)
	}
}

// project returns (1+w)c - wu for at most 1024 rows.
func (m *mixed) project(rows []int32) *tensor.Dense {
	b, n, width := m.inner.Backend, len(rows), m.inner.Width()
	if m.c == nil || m.c.Shape()[1] != width {
		m.c, m.u = nil, nil
	}
	m.c, m.u = backend.Grow(b, m.c, n, width), backend.Grow(b, m.u, n, width)
	b.Gather(m.c, m.inner.Project(rows), nn.RowRange(0, n))
	m.from, m.at, m.segs = m.from[:0], m.at[:0], m.segs[:0]
	for i, r := range rows {
		seq := r / m.length
		t := m.g.twin[seq]
		if t < 0 {
			continue
		}
		m.from, m.at = append(m.from, t*m.length+r%m.length), append(m.at, int32(i))
		if k := len(m.segs); k > 0 && m.segs[k-1].Seq == int(seq) &&
			m.segs[k-1].Row+m.segs[k-1].Rows == i {
			m.segs[k-1].Rows++
			continue
		}
		m.segs = append(m.segs, backend.Segment{Seq: int(seq), Row: i, Rows: 1})
	}
	if len(m.from) == 0 {
		return m.c
	}
	b.Scatter(m.u, m.inner.Project(m.from), m.at)
	b.Modulate(m.c, m.scale, m.zero, m.segs)
	b.GateAdd(m.c, m.u, m.gate, m.segs)
	return m.c
}

// sparse mixes the logits, row by row, of models without an output head, such as exact ones.
type sparse struct {
	g        *Guided
	network  model.Marginals
	length   int32
	outcomes int
}

// logits returns the mixed logits of rows, [rows, columns].
func (s *sparse) logits(rows []int32) (*model.Dense, error) {
	d := &model.Dense{Outcomes: s.outcomes}
	asked, other := append([]int32(nil), rows...), make([]int, len(rows))
	for i, r := range rows {
		other[i] = -1
		if t := s.g.twin[r/s.length]; t >= 0 {
			other[i] = len(asked)
			asked = append(asked, t*s.length+r%s.length)
		}
	}
	all := make([][]float32, len(asked))
	err := s.network.Visit(asked, func(i int, l []float32) { all[i] = append([]float32(nil), l...) })
	if err != nil {
		return nil, err
	}
	for i, r := range rows {
		if c := all[i]; other[i] >= 0 {
			w := float32(s.g.w[r/s.length])
			for x, u := range all[other[i]] {
				// outcomes that the condition forbids stay forbidden
				if w != 0 && !math.IsInf(float64(c[x]), -1) {
					c[x] += w * (c[x] - u)
				}
			}
		}
		d.Columns = len(all[i])
		d.Logits = append(d.Logits, all[i]...)
	}
	return d, nil
}

// of calls do with the mixed logits of rows and their indexes. Its errors name the rows of the
// caller.
func (s *sparse) of(rows []int32, do func(d *model.Dense, all []int32) error) error {
	d, err := s.logits(rows)
	if err == nil {
		err = do(d, nn.RowRange(0, len(rows)))
	}
	if e, ok := err.(*model.RowError); ok && d != nil {
		return &model.RowError{Row: rows[e.Row], Length: int(s.length), Err: e.Err}
	}
	return err
}

// Stats implements model.Marginals.
func (s *sparse) Stats(rows []int32, o *model.Stats) error {
	return s.of(rows, func(d *model.Dense, all []int32) error { return d.Stats(all, o) })
}

// Sample implements model.Marginals.
func (s *sparse) Sample(rows []int32, o *model.Draw) error {
	return s.of(rows, func(d *model.Dense, all []int32) error { return d.Sample(all, o) })
}

// Visit implements model.Marginals.
func (s *sparse) Visit(rows []int32, visit func(i int, logits []float32)) error {
	return s.of(rows, func(d *model.Dense, all []int32) error { return d.Visit(all, visit) })
}
