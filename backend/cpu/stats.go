package cpu

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// HeadStats computes reductions over p = softmax(logits) of each row in one pass over the weights.
// A row without a distribution gets NaN, and -1 in Arg; LogSum shows the reason.
func (b *Backend) HeadStats(x *tensor.Dense, rows int, head backend.Head, s *backend.HeadStats) {
	backend.CheckHeadStats(x, rows, head, s)
	b.mu.Lock()
	defer b.finishCall()
	h := &b.head
	h.prepare(x, head)
	h.stats = s
	h.wanted = reduction{
		power:  s.Beta,
		moment: s.LogMoment != nil && s.Beta != 1,
		dot:    s.Entropy != nil,
		second: s.P1 != nil || s.P2 != nil || s.Arg != nil,
	}
	for base := 0; base < rows; base += headRows {
		h.packRows(base, min(headRows, rows-base))
		h.reduceRows()
		b.pool.For(h.rows, h.finishFunc)
	}
	h.dropArguments()
}

// mergeParts merges the parts of a row of the pass.
func (h *headJob) mergeParts(row int) partial {
	parts := h.parts[row*h.chunks : (row+1)*h.chunks]
	p := parts[0]
	for _, o := range parts[1:] {
		p.join(o, h.wanted.power)
	}
	return p
}

// finishRow writes the results of a row of the pass.
func (h *headJob) finishRow(_, row int) {
	p := h.mergeParts(row)
	i := h.firstRow + row
	s := h.stats
	logSum := p.logSum()
	undefined := !isFinite(logSum)
	set := func(dst []float64, v float64) {
		if dst != nil && undefined {
			dst[i] = math.NaN()
		} else if dst != nil {
			dst[i] = v
		}
	}

	moment := p.sum // for power 1
	if h.wanted.moment {
		moment = p.moment
	}
	set(s.LogMoment, math.Log(moment)-float64(s.Beta*math.Log(p.sum)))
	set(s.Entropy, max(0, math.Log(p.sum)-p.dot/p.sum))
	set(s.P1, math.Exp(float64(p.first)-logSum))
	set(s.P2, math.Exp(float64(p.second)-logSum))
	if s.LogSum != nil {
		s.LogSum[i] = logSum
	}
	if s.Arg != nil {
		s.Arg[i] = p.arg
		if undefined {
			s.Arg[i] = -1
		}
	}
}
