package plain

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// rowLogits returns Scale*(x W^T + bias) of one row, all columns.
func rowLogits(h backend.Head, x []float32) []float64 {
	y := multiplyRow(h.W, x)
	for i, v := range y {
		y[i] = (v + valueOr(h.Bias, i, 0)) * float64(backend.HeadScale(h))
	}
	return y
}

// HeadStats computes reductions over p = softmax(logits of the outcomes) of each row. A row without
// a distribution (a logit NaN or +Inf, or all -Inf) gets NaN everywhere, except in LogSum, which
// shows the reason, and -1 in Arg.
func (d *Device) HeadStats(x *tensor.Dense, rows int, h backend.Head, s *backend.HeadStats) {
	backend.CheckHeadStats(x, rows, h, s)
	for i := range rows {
		logits := rowLogits(h, row(x, i))[:h.Outcomes]
		logSum := logSumExp(logits, 1)
		undefined := !isFinite(logSum)

		var entropy, p1, p2 float64
		arg := int32(-1)
		for t, v := range logits {
			logP := v - logSum
			p := math.Exp(logP)
			if p > 0 { // 0 log 0 = 0
				entropy -= p * logP
			}
			if p > p1 || arg < 0 && !undefined {
				p2 = p1
				p1 = p
				arg = int32(t)
			} else {
				p2 = max(p2, p)
			}
		}

		setResult(s.LogSum, i, logSum, false)
		setResult(s.LogMoment, i, logSumExp(logits, s.Beta)-s.Beta*logSum, undefined)
		setResult(s.Entropy, i, entropy, undefined)
		setResult(s.P1, i, p1, undefined)
		setResult(s.P2, i, p2, undefined)
		if s.Arg != nil {
			s.Arg[i] = arg
		}
	}
}

// isFinite reports whether x is neither NaN nor infinite.
func isFinite(x float64) bool { return x-x == 0 }

// setResult sets dst[i], unless dst is nil, to v or, if v is undefined, to NaN.
func setResult(dst []float64, i int, v float64, undefined bool) {
	if dst == nil {
		return
	}
	if undefined {
		v = math.NaN()
	}
	dst[i] = v
}

// HeadSample draws an outcome of each row: the first whose cumulative p^Power exceeds
// Uniform times the total. A row without a distribution gets Token -1 and LogP NaN.
func (d *Device) HeadSample(x *tensor.Dense, rows int, h backend.Head, s *backend.HeadDraw) {
	backend.CheckHeadSample(x, rows, h, s)
	for i := range rows {
		logits := rowLogits(h, row(x, i))[:h.Outcomes]
		token, logP := drawOutcome(logits, s.Power, s.Uniform[i])
		s.Token[i] = token
		setResult(s.LogP, i, logP, false)
	}
}

// drawOutcome returns the outcome that a uniform number draws from p^power, and its log p.
func drawOutcome(logits []float64, power, uniform float64) (token int32, logP float64) {
	token = -1
	logP = math.NaN()
	logSum := logSumExp(logits, 1)
	if !isFinite(logSum) {
		return token, logP
	}
	logPowers := logSumExp(logits, power)
	cumulative := 0.0
	for t, v := range logits {
		if math.IsInf(v, -1) {
			continue
		}
		p := math.Exp(power*v - logPowers)
		if p == 0 {
			continue
		}
		cumulative += p
		token = int32(t) // the last outcome is drawn if rounding ends the sum below 1
		logP = v - logSum
		if cumulative > uniform {
			break
		}
	}
	return token, logP
}

// HeadVisit calls visit with all logits of each row.
func (d *Device) HeadVisit(x *tensor.Dense, rows int, h backend.Head,
	visit func(row int, logits []float32)) {
	backend.CheckHead("HeadVisit", x, rows, h)
	for i := range rows {
		y := make([]float32, h.W.Out())
		storeRow(y, rowLogits(h, row(x, i)), nil, backend.Epilogue{})
		visit(i, y)
	}
}
