package plain

import (
	"math"

	"gorgonia.org/tensor"

	"unmask/backend"
)

// SplitHeads splits rows of qkv: queries go to q, keys and values to their positions in k and v.
// Queries and keys are rotated by the angle of their position unless r is nil.
func (d *Device) SplitHeads(q, k, v, qkv *tensor.Dense, segs []backend.Segment, pos []int32,
	h backend.Heads, r *backend.Rotary) {
	backend.CheckSplitHeads(q, k, v, qkv, segs, pos, h, r)
	kv := h.KVHeads()
	for _, s := range segs {
		for i := s.Row; i < s.Row+s.Rows; i++ {
			x := row(qkv, i)
			p := int(pos[i])
			head := func(j int) []float32 { return x[j*h.HeadDim:] }
			for j := range h.Heads {
				rotate(row(q, i)[j*h.HeadDim:][:h.HeadDim], head(j), p, r)
			}
			for j := range kv {
				rotate(headVector(k, s.Seq, j, p), head(h.Heads+j), p, r)
				rotate(headVector(v, s.Seq, j, p), head(h.Heads+kv+j), p, nil)
			}
		}
	}
}

// rotate turns each pair (x[i], x[i+half]) by the angle of a position (half-split, GPT-NeoX).
func rotate(dst, x []float32, pos int, r *backend.Rotary) {
	copy(dst, x)
	if r == nil {
		return
	}
	cos := row(r.Cos, pos)
	sin := row(r.Sin, pos)
	half := len(cos)
	for i := range half {
		a := float64(x[i])
		b := float64(x[i+half])
		c := float64(cos[i])
		s := float64(sin[i])
		dst[i] = float32(a*c - b*s)
		dst[i+half] = float32(a*s + b*c)
	}
}

// headVector returns t[seq, head, pos] of a tensor [batch, heads, length, headDim].
func headVector(t *tensor.Dense, seq, head, pos int) []float32 {
	s := t.Shape()
	return row(t, (seq*s[1]+head)*s[2]+pos)
}

// AttendsLocally implements backend.LocalAttention.
func (d *Device) AttendsLocally() {}

// Attention computes dst = softmax(q k^T/sqrt(headDim)) v over keys 0..Keys-1 or, if it is causal,
// over those up to the end of the row's own block or, if it is local, over those near the row.
func (d *Device) Attention(dst, q, k, v *tensor.Dense, segs []backend.Segment, h backend.Heads) {
	backend.CheckAttention(dst, q, k, v, segs, h)
	for _, s := range segs {
		for i := range s.Rows {
			for j := range h.Heads {
				attend(dst, q, k, v, s, i, j, h)
			}
		}
	}
}

// attend computes head j of row i of a segment.
func attend(dst, q, k, v *tensor.Dense, s backend.Segment, i, j int, h backend.Heads) {
	scale := 1 / math.Sqrt(float64(h.HeadDim))
	kvHead := j / (h.Heads / h.KVHeads())
	first := h.FirstKey(s.Pos + i)

	query := row(q, s.Row+i)[j*h.HeadDim:][:h.HeadDim]
	weights := make([]float64, h.EndKey(s.Pos+i)-first)
	for t := range weights {
		weights[t] = dotProduct(query, headVector(k, s.Seq, kvHead, first+t)) * scale
	}
	normalise(weights)

	y := make([]float64, h.HeadDim)
	for t, w := range weights {
		for c, x := range headVector(v, s.Seq, kvHead, first+t) {
			y[c] += w * float64(x)
		}
	}
	storeRow(row(dst, s.Row+i)[j*h.HeadDim:], y, nil, backend.Epilogue{})
}

// dotProduct returns the sum of a[i]*b[i].
func dotProduct(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// normalise replaces logits by their softmax.
func normalise(x []float64) {
	logSum := logSumExp(x, 1)
	for i, v := range x {
		x[i] = math.Exp(v - logSum)
	}
}

// logSumExp returns log sum_i exp(beta*x[i]). A term of x[i] = -Inf is 0 even for beta 0, where
// beta*x[i] would be NaN. The result shows why there is no distribution: it is NaN or infinite
// then.
func logSumExp(x []float64, beta float64) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, v)
	}
	if math.IsInf(top, 0) || top != top {
		return top
	}
	var sum float64
	for _, v := range x {
		if !math.IsInf(v, -1) {
			sum += math.Exp(beta * (v - top))
		}
	}
	return beta*top + math.Log(sum)
}
