package model

import (
	"errors"
	"fmt"
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// HeadRows is the most rows of one call to a head; it bounds the working memory.
const HeadRows = 1024

var errNotFinite = errors.New("logits are NaN or infinite, want finite ones")

// HeadMarginals are the Marginals of a network that ends in an output head: they keep the last
// hidden states and run the head for the rows that are asked for.
type HeadMarginals struct {
	Backend backend.Backend
	Head    backend.Head
	Length  int // of a sequence, for errors
	Rows    int // of the latest pass; 0: not counted

	// Heads, if there are any, are used in turn instead of Head, by the position of a row: those of
	// several codebooks. All have the same size.
	Heads []backend.Head

	// Project returns the head's input [rows, width] for at most HeadRows rows. It is valid until
	// the next call.
	Project func(rows []int32) *tensor.Dense

	stats  Stats
	draw   Draw
	logSum []float64
	byHead headOrder
}

// AsHeadMarginals returns m. A type that embeds *HeadMarginals has this method too, so guidance can
// mix the head's inputs.
func (m *HeadMarginals) AsHeadMarginals() *HeadMarginals { return m }

// Stats implements Marginals.
func (m *HeadMarginals) Stats(rows []int32, s *Stats) (err error) {
	defer backend.Recover(&err)
	if rows, err = m.order(rows); err != nil {
		return err
	}
	for i, end := 0, 0; i < len(rows); i = end {
		part, head := m.next(rows[i:])
		end = i + len(part)
		m.stats = Stats{Beta: s.Beta,
			LogMoment: piece(s.LogMoment, i, len(part)), Entropy: piece(s.Entropy, i, len(part)),
			P1: piece(s.P1, i, len(part)), P2: piece(s.P2, i, len(part)), Arg: piece(s.Arg, i, len(part)),
			LogSum: piece(s.LogSum, i, len(part))}
		if s.LogSum == nil {
			m.stats.LogSum = m.sums(len(part))
		}
		m.Backend.HeadStats(m.Project(part), len(part), head, &m.stats)
		if err := m.check(part, m.stats.LogSum); err != nil {
			return err
		}
	}
	for _, x := range [][]float64{s.LogMoment, s.Entropy, s.P1, s.P2, s.LogSum} {
		restore(&m.byHead, x, &m.byHead.floats)
	}
	restore(&m.byHead, s.Arg, &m.byHead.tokens)
	return nil
}

// order returns the rows by head, or an error for one that the latest pass has not.
func (m *HeadMarginals) order(rows []int32) ([]int32, error) {
	for _, r := range rows {
		if r < 0 || m.Rows > 0 && int(r) >= m.Rows {
			return nil, fmt.Errorf("row is %d, want 0 to %d", r, m.Rows-1)
		}
	}
	return m.byHead.order(rows, m.Heads), nil
}

// Sample implements Marginals.
func (m *HeadMarginals) Sample(rows []int32, d *Draw) (err error) {
	defer backend.Recover(&err)
	if rows, err = m.order(rows); err != nil {
		return err
	}
	uniform := m.byHead.sorted(d.Uniform)
	for i, end := 0, 0; i < len(rows); i = end {
		part, head := m.next(rows[i:])
		end = i + len(part)
		m.draw = Draw{Power: d.Power, Uniform: piece(uniform, i, len(part)),
			Token: piece(d.Token, i, len(part)), LogP: piece(d.LogP, i, len(part))}
		if d.LogP == nil {
			m.draw.LogP = m.sums(len(part))
		}
		m.Backend.HeadSample(m.Project(part), len(part), head, &m.draw)
		if err := m.check(part, m.draw.LogP); err != nil {
			return err
		}
	}
	restore(&m.byHead, d.LogP, &m.byHead.floats)
	restore(&m.byHead, d.Token, &m.byHead.tokens)
	return nil
}

// Visit implements Marginals.
func (m *HeadMarginals) Visit(rows []int32, visit func(i int, logits []float32)) (err error) {
	defer backend.Recover(&err)
	if rows, err = m.order(rows); err != nil {
		return err
	}
	for i, end := 0, 0; i < len(rows); i = end {
		part, head := m.next(rows[i:])
		end = i + len(part)
		m.Backend.HeadVisit(m.Project(part), len(part), head, func(row int, logits []float32) {
			visit(m.byHead.at(i+row), logits)
		})
	}
	return nil
}

// CanChoose implements Chooser; it depends on the device.
func (m *HeadMarginals) CanChoose() bool {
	_, ok := m.Backend.(backend.Chooser)
	return ok && m.Heads == nil
}

// Choose implements Chooser.
func (m *HeadMarginals) Choose(rows []int32, c *backend.Choice) error {
	project := func(first, n int) *tensor.Dense { return m.Project(rows[first : first+n]) }
	m.Backend.(backend.Chooser).HeadChoose(len(rows), project, m.Head, c)
	if c.Undefined >= 0 {
		return &RowError{Row: rows[c.Undefined], Length: m.Length, Err: errNotFinite}
	}
	chosen, drawn := 0, 0
	for _, g := range c.Groups {
		for j := range g.DrawCount {
			if err := m.check(rows[c.Row[chosen+j]:][:1], c.LogP[drawn+j:][:1]); err != nil {
				return err
			}
		}
		chosen, drawn = chosen+g.Count, drawn+g.DrawCount
	}
	return nil
}

func (m *HeadMarginals) sums(n int) []float64 {
	if m.logSum == nil {
		m.logSum = make([]float64, HeadRows)
	}
	return m.logSum[:n]
}

// check returns a RowError for the first row whose logits have no softmax.
func (m *HeadMarginals) check(rows []int32, logs []float64) error {
	for i, v := range logs {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return &RowError{Row: rows[i], Length: m.Length, Err: errNotFinite}
		}
	}
	return nil
}

func piece[T any](s []T, at, n int) []T {
	if s == nil {
		return nil
	}
	return s[at : at+n]
}
