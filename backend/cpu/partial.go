package cpu

import "math"

// shift changes the value that logits are shifted by to the largest one so far.
func (p *partial) shift(top float32, power float64) {
	if p.top == negInf {
		p.top = top
		return
	}
	d := float64(p.top) - float64(top)
	f := math.Exp(d)
	p.dot = f * (p.dot + float64(d*p.sum))
	p.sum *= f
	p.moment *= math.Exp(power * d)
	p.top = top
}

// leaders updates the two largest logits with those of a tile, at and after column; among equals
// the lowest index is kept.
func (p *partial) leaders(top, second float32, column int) {
	if top > p.first {
		p.second = max(p.first, second)
		p.first, p.arg = top, int32(column)
	} else {
		p.second = max(p.second, top)
	}
}

// join merges the next part of a row.
func (p *partial) join(o partial, power float64) {
	if o.top > p.top {
		p.shift(o.top, power)
	} else if o.top < p.top {
		o.shift(p.top, power)
	}
	p.sum += o.sum
	p.moment += o.moment
	p.dot += o.dot
	if o.first > p.first {
		p.second = max(p.first, o.second)
		p.first, p.arg = o.first, o.arg
	} else {
		p.second = max(p.second, o.first)
	}
}

// logSum returns the log of the sum of exponentials, NaN or infinite if there is no distribution.
func (p *partial) logSum() float64 { return float64(p.top) + math.Log(p.sum) }

func finite(x float64) bool { return x-x == 0 }
