package vec

import (
	"unsafe"

	"unmask/internal/simd"
)

// Panel is how attention holds queries: one a lane, in lines of Lanes() floats. A lane's
// results do not depend on the panel, nor on the other lanes.
type Panel struct {
	ops Ops

	// columns is the number of registers of a line.
	columns int
}

// Panels returns the panels of an instruction set, the widest first.
func (o Ops) Panels() []Panel {
	if o == Ops(simd.AVX512) {
		return []Panel{{o, 3}, {o, 2}, {o, 1}}
	}
	return []Panel{{o, 3}, {o, 1}}
}

// Lanes returns the number of queries of a panel.
func (p Panel) Lanes() int {
	if p.ops == Ops(simd.AVX512) {
		return 16 * p.columns
	}
	return 8 * p.columns
}

// Scores computes s = k q: s [keys, lanes], k [keys, dim], q [dim, lanes]. Meanwhile it fetches the
// beginning of next, keys*dim values, into the caches, for the kernel that reads them; nil is
// nothing.
func (p Panel) Scores(s, k, q []float32, keys, dim int, next []float32) {
	_ = s[keys*p.Lanes()-1] // the assembly checks no bounds, here and below
	_ = k[keys*dim-1]
	_ = q[dim*p.Lanes()-1]
	p.scores(s, k, q, keys, dim, address(next, k))
}

// Softmax is a step of the online softmax (Milakov and Gimelshein 2018) over a block of
// scores s [keys, lanes] in units of log 2. top becomes the maximum so far, alpha the factor for
// earlier sums, s the weights 2^(s-top), and sum the weights' sum so far. Weights below 2^-126 are
// 0.
func (p Panel) Softmax(s, top, sum, alpha []float32, keys int) {
	n := p.Lanes()
	_ = s[keys*n-1]
	_ = top[n-1]
	_ = sum[n-1]
	_ = alpha[n-1]
	p.softmax(s, top, sum, alpha, keys)
}

// Values computes o = o*alpha + v^T s: o [dim, lanes], v [keys, dim], s [keys, lanes]; next as in
// Scores.
func (p Panel) Values(o, v, s, alpha []float32, keys, dim int, next []float32) {
	n := p.Lanes()
	_ = o[dim*n-1]
	_ = v[keys*dim-1]
	_ = s[keys*n-1]
	_ = alpha[n-1]
	p.values(o, v, s, alpha, keys, dim, address(next, v))
}

// ValuesBF16 is Values of words that hold two bfloat16 along the keys: v [pairs, dim] and
// s [pairs, lanes] as PairBF16 makes them.
func (p Panel) ValuesBF16(o, v, s, alpha []float32, pairs, dim int, next []float32) {
	n := p.Lanes()
	_ = o[dim*n-1]
	_ = v[pairs*dim-1]
	_ = s[pairs*n-1]
	_ = alpha[n-1]
	p.valuesBF16(o, v, s, alpha, pairs, dim, address(next, v))
}

// address returns where next is or, if it is empty, the address of what is read anyway. It is only
// prefetched from, so it need not be a pointer that keeps memory alive.
func address(next, otherwise []float32) uintptr {
	if len(next) == 0 {
		next = otherwise
	}
	return uintptr(unsafe.Pointer(&next[0]))
}

// PairBF16 rounds x [rows, width] to bfloat16, words of dst [(rows+1)/2, width] from two rows each:
// 0 follows an odd last one. width is a multiple of 16; dst may be x.
func (o Ops) PairBF16(dst, x []float32, rows, width int) {
	pairs := rows / 2
	if pairs > 0 {
		_ = dst[pairs*width-1]
		_ = x[2*pairs*width-1]
		o.pairBF16(dst, x, pairs, width)
	}
	if rows%2 == 0 {
		return
	}
	var lastAndZeros [2 * line]float32
	for j := 0; j < width; j += line {
		copy(lastAndZeros[:line], x[2*pairs*width+j:][:line])
		o.pairBF16(dst[pairs*width+j:][:line], lastAndZeros[:], 1, line)
	}
}

// Transpose computes dst[j][i] = src[i][j]*scale[j] for a row of blocks of 8 by 8: dst advances by
// dstStep and src by srcStep from one to the next. Rows are strides apart, all in floats.
func (o Ops) Transpose(dst, src []float32, scale *[8]float32, dstStride, srcStride, dstStep,
	srcStep, blocks int) {
	if blocks == 0 {
		return
	}
	_ = dst[(blocks-1)*dstStep+7*dstStride+7]
	_ = src[(blocks-1)*srcStep+7*srcStride+7]
	o.transpose(dst, src, scale, dstStride, srcStride, dstStep, srcStep, blocks)
}
