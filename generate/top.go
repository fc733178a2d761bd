package generate

import (
	"math"
	"slices"
)

// MaxTop is the largest Request.Top.
const MaxTop = 20

// TopToken is a token and its log-probability, a natural logarithm.
type TopToken struct {
	Token int32
	LogP  float64
}

// top sets Opened.Top of the drawn positions from..to of a member's opening, if its request asks
// for it. The latest pass is the one that they were drawn from, except where keepTop was earlier.
func (p *Pool) top(m *member, from, to int) {
	if m.Top == 0 || from >= to || m.step.fault != nil {
		return
	}
	positions := m.step.opening.Positions[from:to]
	for i, likely := range p.likely(m, positions) {
		if earlier, ok := m.step.earlier[positions[i]]; ok {
			likely = earlier
		}
		m.step.pending[from+i].Top = likely
	}
}

// likely returns the most probable tokens at positions by the latest pass, nil if a sampler looked
// ahead or the pass has no distribution there, which is the member's fault.
func (p *Pool) likely(m *member, positions []int) [][]TopToken {
	if p.pass.of != &p.pass.batch {
		return nil
	}
	rows := make([]int32, len(positions))
	for i, at := range positions {
		rows[i] = m.rowOf(m.step.row*p.pass.of.Length, at)
	}
	m.step.work.Head += len(rows)
	out := make([][]TopToken, len(rows))
	err := p.marginals(m).Visit(rows, func(i int, logits []float32) {
		out[i] = mostLikely(logits[:p.spec.Outcomes], m.Top)
	})
	if err != nil {
		p.blame(m, err)
		return nil
	}
	return out
}

// mostLikely returns the n most probable tokens under softmax(logits), the first of them first, of
// equal ones the one with the lower id. Tokens of probability 0 are left out.
func mostLikely(logits []float32, n int) []TopToken {
	out := make([]TopToken, 0, n+1)
	for v, x := range logits {
		if len(out) == n && float64(x) <= out[n-1].LogP {
			continue
		}
		at := len(out)
		for at > 0 && out[at-1].LogP < float64(x) {
			at--
		}
		if out = slices.Insert(out, at, TopToken{int32(v), float64(x)}); len(out) > n {
			out = out[:n]
		}
	}
	sum, most := 0.0, out[0].LogP
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	for i := range out {
		out[i].LogP -= most + math.Log(sum)
		if math.Exp(out[i].LogP) == 0 {
			return out[:i]
		}
	}
	return out
}
