package cpu

import "math"

// rescale changes the value that logits are shifted by to top, which is at least as large.
func (p *partial) rescale(top float32, power float64) {
	if p.top == negInf {
		p.top = top
		return
	}

	// Each logit-top changes by d, so that e*(logit-top) becomes factor*e*(logit-top + d).
	d := float64(p.top) - float64(top)
	factor := math.Exp(d)
	p.dot = factor * (p.dot + float64(d*p.sum))
	p.sum *= factor
	p.moment *= math.Exp(power * d)
	p.top = top
}

// addLeaders updates the two largest logits with those of a tile, at and after column; among equals
// the lowest index is kept.
func (p *partial) addLeaders(top, second float32, column int) {
	if top > p.first {
		p.second = max(p.first, second)
		p.first = top
		p.arg = int32(column)
	} else {
		p.second = max(p.second, top)
	}
}

// join merges o, the next part of a row.
func (p *partial) join(o partial, power float64) {
	if o.top > p.top {
		p.rescale(o.top, power)
	} else if o.top < p.top {
		o.rescale(p.top, power)
	}
	p.sum += o.sum
	p.moment += o.moment
	p.dot += o.dot
	if o.first > p.first {
		p.second = max(p.first, o.second)
		p.first = o.first
		p.arg = o.arg
	} else {
		p.second = max(p.second, o.first)
	}
}

// logSum returns the log of the sum of exponentials, NaN or infinite if there is no distribution.
func (p *partial) logSum() float64 { return float64(p.top) + math.Log(p.sum) }

// isFinite reports whether x is a number: the difference of an infinity or a NaN from itself is
// NaN.
func isFinite(x float64) bool { return x-x == 0 }
