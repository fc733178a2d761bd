package vec

import "unmask/internal/simd"

// Panel is how attention holds queries: one a lane, in lines of Lanes() floats. A lane's
// results do not depend on the panel, nor on the other lanes.
type Panel struct {
	ops  Ops
	wide bool
}

// Panels returns the wide panel for most rows and the narrow one for the last.
func (o Ops) Panels() (wide, narrow Panel) { return Panel{o, true}, Panel{o, false} }

// Lanes is how many queries a panel has.
func (p Panel) Lanes() int {
	n := 8
	if p.ops == Ops(simd.AVX512) {
		n = 16
	}
	if p.wide {
		n *= 3
	}
	return n
}

// Scores computes s = k q: s [keys, lanes], k [keys, dim], q [dim, lanes].
func (p Panel) Scores(s, k, q []float32, keys, dim int) {
	_, _, _ = s[keys*p.Lanes()-1], k[keys*dim-1], q[dim*p.Lanes()-1]
	p.scores(s, k, q, keys, dim)
}

// Softmax is a step of the online softmax (Milakov and Gimelshein 2018) over a block of
// scores s [keys, lanes] in units of log 2: top becomes the maximum so far, alpha is what earlier
// sums shrink by, s becomes the weights 2^(s-top) and sum their sum so far. Weights below
// 2^-126 are 0.
func (p Panel) Softmax(s, top, sum, alpha []float32, keys int) {
	n := p.Lanes()
	_, _, _, _ = s[keys*n-1], top[n-1], sum[n-1], alpha[n-1]
	p.softmax(s, top, sum, alpha, keys)
}

// Values computes o = o*alpha + v^T s: o [dim, lanes], v [keys, dim], s [keys, lanes].
func (p Panel) Values(o, v, s, alpha []float32, keys, dim int) {
	n := p.Lanes()
	_, _, _, _ = o[dim*n-1], v[keys*dim-1], s[keys*n-1], alpha[n-1]
	p.values(o, v, s, alpha, keys, dim)
}

// Transpose computes dst[j][i] = src[i][j]*scale[j] for a row of blocks of 8 by 8: dst advances by
// dstStep and src by srcStep from one to the next. Rows are strides apart, all in floats.
func (o Ops) Transpose(dst, src []float32, scale *[8]float32, dstStride, srcStride, dstStep, srcStep, blocks int) {
	if blocks == 0 {
		return
	}
	_, _ = dst[(blocks-1)*dstStep+7*dstStride+7], src[(blocks-1)*srcStep+7*srcStride+7]
	o.transpose(dst, src, scale, dstStride, srcStride, dstStep, srcStep, blocks)
}
