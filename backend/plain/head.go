package plain

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// logits returns Scale*(x W^T + bias) of one row, all columns.
func logits(h backend.Head, x []float32) []float64 {
	y := product(h.W, x)
	for i, v := range y {
		y[i] = (v + at(h.Bias, i, 0)) * float64(backend.HeadScale(h))
	}
	return y
}

// HeadStats computes reductions over p = softmax(logits of the outcomes) of each row. A row without
// a distribution (a logit NaN or +Inf, or all -Inf) gets NaN everywhere, except in LogSum, which
// shows the reason, and -1 in Arg.
func (d *Device) HeadStats(x *tensor.Dense, rows int, h backend.Head, s *backend.HeadStats) {
	backend.CheckHeadStats(x, rows, h, s)
	for i := range rows {
		l := logits(h, row(x, i))[:h.Outcomes]
		sum := logSumExp(l, 1)
		none := !finite(sum)
		var entropy float64
		p1, p2, arg := 0.0, 0.0, int32(-1)
		for t, v := range l {
			lp := v - sum
			p := math.Exp(lp)
			if p > 0 { // 0 log 0 = 0
				entropy -= p * lp
			}
			if p > p1 || arg < 0 && !none {
				p1, p2, arg = p, p1, int32(t)
			} else {
				p2 = max(p2, p)
			}
		}
		set(s.LogSum, i, sum, false)
		set(s.LogMoment, i, logSumExp(l, s.Beta)-s.Beta*sum, none)
		set(s.Entropy, i, entropy, none)
		set(s.P1, i, p1, none)
		set(s.P2, i, p2, none)
		if s.Arg != nil {
			s.Arg[i] = arg
		}
	}
}

func finite(x float64) bool { return x-x == 0 }

func set(dst []float64, i int, v float64, none bool) {
	if dst == nil {
		return
	}
	if none {
		v = math.NaN()
	}
	dst[i] = v
}

// HeadSample draws an outcome of each row: the first whose cumulative p^Power exceeds
// Uniform times the total. A row without a distribution gets Token -1 and LogP NaN.
func (d *Device) HeadSample(x *tensor.Dense, rows int, h backend.Head, s *backend.HeadDraw) {
	backend.CheckHeadSample(x, rows, h, s)
	for i := range rows {
		l := logits(h, row(x, i))[:h.Outcomes]
		sum, power := logSumExp(l, 1), logSumExp(l, s.Power)
		token, logp := int32(-1), math.NaN()
		if finite(sum) {
			var cum float64
			for t, v := range l {
				if math.IsInf(v, -1) {
					continue
				}
				p := math.Exp(s.Power*v - power)
				if p == 0 {
					continue
				}
				cum += p
				token, logp = int32(t), v-sum // the last outcome, if rounding ends the sum below 1
				if cum > s.Uniform[i] {
					break
				}
			}
		}
		s.Token[i] = token
		set(s.LogP, i, logp, false)
	}
}

// HeadVisit passes on all logits of each row.
func (d *Device) HeadVisit(x *tensor.Dense, rows int, h backend.Head,
	visit func(row int, logits []float32)) {
	backend.CheckHead("HeadVisit", x, rows, h)
	for i := range rows {
		y := make([]float32, h.W.Out())
		store(y, logits(h, row(x, i)), nil, backend.Epilogue{})
		visit(i, y)
	}
}
