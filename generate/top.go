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

// setTop sets the Top of the drawn positions from..to of a member's opening, if its request asks
// for it. The latest pass is the one that they were drawn from, except where keepFirstTop was
// earlier.
func (p *Pool) setTop(m *member, from, to int) {
	if m.Top == 0 || from >= to || m.step.fault != nil {
		return
	}
	positions := m.step.opening.Positions[from:to]
	for i, top := range p.topTokensAt(m, positions) {
		if earlier, ok := m.step.firstPassTop[positions[i]]; ok {
			top = earlier
		}
		m.step.pending[from+i].Top = top
	}
}

// topTokensAt returns the most probable tokens at positions by the latest pass. It returns nil if a
// sampler looked ahead, because the latest pass is then one over candidates, or if the pass has no
// distribution there, which is the member's fault.
func (p *Pool) topTokensAt(m *member, positions []int) [][]TopToken {
	if p.pass.readBatch != &p.pass.batch {
		return nil
	}
	rows := make([]int32, len(positions))
	for i, position := range positions {
		rows[i] = m.rowOf(m.step.batchIndex*p.pass.readBatch.Length, position)
	}
	m.step.work.Head += len(rows)
	tops := make([][]TopToken, len(rows))
	err := p.marginalsOf(m).Visit(rows, func(i int, logits []float32) {
		tops[i] = topTokens(logits[:p.spec.Outcomes], m.Top)
	})
	if err != nil {
		p.setFault(m, err)
		return nil
	}
	return tops
}

// topTokens returns the n most probable tokens under softmax(logits), the first of them first, of
// equal ones the one with the lower id. Tokens of probability 0 are left out.
func topTokens(logits []float32, n int) []TopToken {
	// LogP has the logits until the sum is known.
	top := make([]TopToken, 0, n+1)
	for token, x := range logits {
		logit := float64(x)
		if len(top) == n && logit <= top[n-1].LogP {
			continue
		}
		i := len(top)
		for i > 0 && top[i-1].LogP < logit {
			i--
		}
		top = slices.Insert(top, i, TopToken{int32(token), logit})
		top = top[:min(n, len(top))]
	}

	// The largest logit is taken off first, so that no power overflows and the largest of them is 1.
	sum := 0.0
	largest := top[0].LogP
	for _, x := range logits {
		sum += math.Exp(float64(x) - largest)
	}
	for i := range top {
		top[i].LogP -= largest + math.Log(sum)
		if math.Exp(top[i].LogP) == 0 {
			return top[:i]
		}
	}
	return top
}
