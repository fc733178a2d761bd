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
			x, p := row(qkv, i), int(pos[i])
			head := func(j int) []float32 { return x[j*h.HeadDim:] }
			for j := range h.Heads {
				rotate(row(q, i)[j*h.HeadDim:][:h.HeadDim], head(j), p, r)
			}
			for j := range kv {
				rotate(vector(k, s.Seq, j, p), head(h.Heads+j), p, r)
				rotate(vector(v, s.Seq, j, p), head(h.Heads+kv+j), p, nil)
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
	cos, sin := row(r.Cos, pos), row(r.Sin, pos)
	half := len(cos)
	for i := range half {
		a, b := float64(x[i]), float64(x[i+half])
		c, s := float64(cos[i]), float64(sin[i])
		dst[i], dst[i+half] = float32(a*c-b*s), float32(a*s+b*c)
	}
}

// vector returns t[seq, head, pos] of a tensor [batch, heads, length, headDim].
func vector(t *tensor.Dense, seq, head, pos int) []float32 {
	s := t.Shape()
	return row(t, (seq*s[1]+head)*s[2]+pos)
}

// AttendsLocally implements backend.LocalAttention.
func (d *Device) AttendsLocally() {}

// Attention computes dst = softmax(q k^T/sqrt(headDim)) v over keys 0..Keys-1 or, if it is causal,
// over those up to the end of the row's own block or, if it is local, over those near the row.
func (d *Device) Attention(dst, q, k, v *tensor.Dense, segs []backend.Segment, h backend.Heads) {
	backend.CheckAttention(dst, q, k, v, segs, h)
	scale, group := 1/math.Sqrt(float64(h.HeadDim)), h.Heads/h.KVHeads()
	for _, s := range segs {
		for i := range s.Rows {
			for j := range h.Heads {
				q := row(q, s.Row+i)[j*h.HeadDim:][:h.HeadDim]
				first := h.FirstKey(s.Pos + i)
				p := make([]float64, h.EndKey(s.Pos+i)-first)
				for t := range p {
					p[t] = dot(q, vector(k, s.Seq, j/group, first+t)) * scale
				}
				normalise(p)
				y := make([]float64, h.HeadDim)
				for t, w := range p {
					for c, x := range vector(v, s.Seq, j/group, first+t) {
						y[c] += w * float64(x)
					}
				}
				store(row(dst, s.Row+i)[j*h.HeadDim:], y, nil, backend.Epilogue{})
			}
		}
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// normalise replaces logits by their softmax.
func normalise(x []float64) {
	l := logSumExp(x, 1)
	for i, v := range x {
		x[i] = math.Exp(v - l)
	}
}

// logSumExp returns log sum_i exp(beta*x[i]), where a term of x[i] = -Inf is 0.
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
