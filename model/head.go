package model

import (
	"errors"
	"fmt"
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// HeadRows is the most rows of one call to a head; it bounds the working memory, of which a head
// with a large vocabulary needs much for each row.
const HeadRows = 1024

var errNotFinite = errors.New("logits are NaN or infinite, want finite ones")

// HeadMarginals are the Marginals of a network that ends in an output head: they keep the last
// hidden states and run the head for the rows that are asked for.
type HeadMarginals struct {
	Backend backend.Backend
	Head    backend.Head

	// Length is the number of positions of a sequence, for errors.
	Length int

	// Rows is the number of rows of the latest pass, for the check of rows; 0 means not checked.
	Rows int

	// Heads, if there are any, are used in turn instead of Head, by the position of a row: those of
	// several codebooks. All have the same size.
	Heads []backend.Head

	// Project returns the head's input [rows, width] for at most HeadRows rows. It is valid until
	// the next call.
	Project func(rows []int32) *tensor.Dense

	// Memory of the latest call.
	stats  Stats
	draw   Draw
	logSum []float64 // where the caller wants none: check needs it
	byHead headOrder
}

// AsHeadMarginals returns m. A type that embeds *HeadMarginals has this method too, so guidance can
// mix the head's inputs.
func (m *HeadMarginals) AsHeadMarginals() *HeadMarginals { return m }

// Stats implements Marginals.
func (m *HeadMarginals) Stats(rows []int32, s *Stats) (err error) {
	defer backend.Recover(&err)
	rows, err = m.sortRows(rows)
	if err != nil {
		return err
	}
	for i := 0; i < len(rows); {
		part, head := m.nextCall(rows[i:])
		n := len(part)
		m.stats = Stats{
			Beta:      s.Beta,
			LogMoment: subslice(s.LogMoment, i, n),
			Entropy:   subslice(s.Entropy, i, n),
			P1:        subslice(s.P1, i, n),
			P2:        subslice(s.P2, i, n),
			Arg:       subslice(s.Arg, i, n),
			LogSum:    subslice(s.LogSum, i, n),
		}
		if s.LogSum == nil { // checkFinite needs it, whoever else does not
			m.stats.LogSum = m.ownLogSum(n)
		}
		m.Backend.HeadStats(m.Project(part), n, head, &m.stats)
		if err := m.checkFinite(part, m.stats.LogSum); err != nil {
			return err
		}
		i += n
	}
	for _, x := range [][]float64{s.LogMoment, s.Entropy, s.P1, s.P2, s.LogSum} {
		unsort(&m.byHead, x, &m.byHead.floats)
	}
	unsort(&m.byHead, s.Arg, &m.byHead.tokens)
	return nil
}

// sortRows returns the rows by head, or an error for one that the latest pass does not have.
func (m *HeadMarginals) sortRows(rows []int32) ([]int32, error) {
	for _, r := range rows {
		if r < 0 || m.Rows > 0 && int(r) >= m.Rows {
			return nil, fmt.Errorf("row is %d, want 0 to %d", r, m.Rows-1)
		}
	}
	return m.byHead.sortRows(rows, m.Heads), nil
}

// Sample implements Marginals.
func (m *HeadMarginals) Sample(rows []int32, d *Draw) (err error) {
	defer backend.Recover(&err)
	rows, err = m.sortRows(rows)
	if err != nil {
		return err
	}
	uniform := m.byHead.sortUniform(d.Uniform)
	for i := 0; i < len(rows); {
		part, head := m.nextCall(rows[i:])
		n := len(part)
		m.draw = Draw{
			Power:   d.Power,
			Uniform: subslice(uniform, i, n),
			Token:   subslice(d.Token, i, n),
			LogP:    subslice(d.LogP, i, n),
		}
		if d.LogP == nil {
			m.draw.LogP = m.ownLogSum(n)
		}
		m.Backend.HeadSample(m.Project(part), n, head, &m.draw)
		if err := m.checkFinite(part, m.draw.LogP); err != nil {
			return err
		}
		i += n
	}
	unsort(&m.byHead, d.LogP, &m.byHead.floats)
	unsort(&m.byHead, d.Token, &m.byHead.tokens)
	return nil
}

// Visit implements Marginals.
func (m *HeadMarginals) Visit(rows []int32, visit func(i int, logits []float32)) (err error) {
	defer backend.Recover(&err)
	rows, err = m.sortRows(rows)
	if err != nil {
		return err
	}
	for i := 0; i < len(rows); {
		part, head := m.nextCall(rows[i:])
		first := i
		m.Backend.HeadVisit(m.Project(part), len(part), head, func(row int, logits []float32) {
			visit(m.byHead.callIndex(first+row), logits)
		})
		i += len(part)
	}
	return nil
}

// CanChoose implements Chooser; it depends on the device. Several heads cannot: the device ranks
// all candidates of a sequence at once, and each call of a head has those of one codebook.
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
	chosen := 0
	drawn := 0
	for _, g := range c.Groups {
		for j := range g.DrawCount {
			row := rows[c.Row[chosen+j]]
			if !isFinite(c.LogP[drawn+j]) {
				return &RowError{Row: row, Length: m.Length, Err: errNotFinite}
			}
		}
		chosen += g.Count
		drawn += g.DrawCount
	}
	return nil
}

// ownLogSum returns memory for n logarithms that the caller did not ask for.
func (m *HeadMarginals) ownLogSum(n int) []float64 {
	if m.logSum == nil {
		m.logSum = make([]float64, HeadRows)
	}
	return m.logSum[:n]
}

// checkFinite returns a RowError for the first row whose logits have no softmax: then the logarithm
// of their sum, and of a drawn token's p, is no number.
func (m *HeadMarginals) checkFinite(rows []int32, logs []float64) error {
	for i, x := range logs {
		if !isFinite(x) {
			return &RowError{Row: rows[i], Length: m.Length, Err: errNotFinite}
		}
	}
	return nil
}

// isFinite reports whether x is a number that is not infinite.
func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// subslice returns n elements of s from index first on; nil stays nil.
func subslice[T any](s []T, first, n int) []T {
	if s == nil {
		return nil
	}
	return s[first : first+n]
}
