package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/simd"
)

// TestPanels runs an online softmax over blocks of keys against its formula.
func TestPanels(t *testing.T) {
	eachOps(t, func(t *testing.T, o Ops) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, p := range o.Panels() {
			n := p.Lanes()
			for _, dim := range []int{1, 3, 8, 20, 48, 64} {
				for _, blocks := range [][]int{{1}, {2, 1}, {5, 8, 3}, {16, 9}} {
					got, k, v, q := attend(r, p, dim, blocks)
					for j := range n {
						want := make([]float64, dim)
						weights, total := make([]float64, len(k)/dim), 0.0
						for i := range weights {
							var s float64
							for d := range dim {
								s += float64(k[i*dim+d]) * float64(q[d*n+j])
							}
							weights[i] = math.Exp2(s)
							total += weights[i]
						}
						for i, w := range weights {
							for d := range dim {
								want[d] += w / total * float64(v[i*dim+d])
							}
						}
						for d := range dim {
							near(t, "attention", float64(got[d*n+j]), want[d], 2e-5)
						}
					}
				}
			}
		}
	})
}

// attend runs one panel over blocks of keys and returns its output with the factors.
func attend(r *rand.Rand, p Panel, dim int, blocks []int) (o, k, v, q []float32) {
	n, keys, most := p.Lanes(), 0, 0
	for _, b := range blocks {
		keys, most = keys+b, max(most, b)
	}
	k, v, q = normal(r, keys*dim), normal(r, keys*dim), normal(r, dim*n)
	o = make([]float32, dim*n)
	s, top, sum, alpha := make([]float32, most*n), make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range top {
		top[i] = -inf
	}
	at := 0
	for _, b := range blocks {
		p.Scores(s, k[at*dim:], q, b, dim, v[at*dim:])
		p.Softmax(s, top, sum, alpha, b)
		p.Values(o, v[at*dim:], s, alpha, b, dim, nil)
		at += b
	}
	for i := range o {
		o[i] /= sum[i%n]
	}
	return o, k, v, q
}

// TestMasked: a lane whose scores are -Inf in a block keeps its bits.
func TestMasked(t *testing.T) {
	eachOps(t, func(t *testing.T, o Ops) {
		p := o.Panels()[0]
		n := p.Lanes()
		r := rand.New(rand.NewPCG(9, 1))
		s, top, sum, alpha, out := normal(r, 5*n), normal(r, n), normal(r, n), make([]float32, n), normal(r, 4*n)
		for i := range s {
			s[i] = -inf
		}
		before, sums, outs := append([]float32(nil), top...), append([]float32(nil), sum...), append([]float32(nil), out...)
		p.Softmax(s, top, sum, alpha, 5)
		p.Values(out, normal(r, 20), s, alpha, 5, 4, nil)
		require.Equal(t, before, top)
		require.Equal(t, sums, sum)
		require.Equal(t, outs, out)
		require.EqualValues(t, 1, alpha[0])
	})
}

func TestTranspose(t *testing.T) {
	eachOps(t, func(t *testing.T, o Ops) {
		r := rand.New(rand.NewPCG(4, 4))
		scale := [8]float32{1, 2, 3, 4, 5, 6, 7, 8}
		const blocks, dstStride, srcStride = 3, 30, 11
		src, dst := normal(r, 7*srcStride+8+2*(blocks-1)), make([]float32, 7*dstStride+8+8*(blocks-1))
		o.Transpose(dst, src, &scale, dstStride, srcStride, 8, 2, blocks)
		for b := range blocks {
			for i := range 8 {
				for j := range 8 {
					require.Equal(t, src[2*b+i*srcStride+j]*scale[j], dst[8*b+j*dstStride+i])
				}
			}
		}
		require.Zero(t, dst[8*blocks], "beyond the last block")
	})
}

// TestBF16: what the processor computes of bfloat16 is what plain Go does.
func TestBF16(t *testing.T) {
	best := simd.Available()[0]
	if !best.BF16 {
		t.Skip("needs AVX512_BF16")
	}
	o, generic := Ops(best.ISA), Ops(simd.Generic)
	r := rand.New(rand.NewPCG(5, 6))
	for _, p := range o.Panels() {
		n := p.Lanes()
		for _, dim := range []int{16, 48, 64} {
			for _, keys := range []int{1, 2, 7, 8, 9, 41} {
				v, s, alpha, out := normal(r, keys*dim), normal(r, keys*n), normal(r, n), normal(r, dim*n)
				v[0], v[1], s[0], s[1] = 1.00390625, 1.01171875, -3e38, inf // halfway to even, the largest
				pairs := (keys + 1) / 2
				words, weights := make([]float32, pairs*dim), slices.Clone(s)
				o.PairBF16(words, v, keys, dim)
				wantWords, wantWeights := make([]float32, pairs*dim), make([]float32, pairs*n)
				generic.PairBF16(wantWords, v, keys, dim)
				generic.PairBF16(wantWeights, s, keys, n)
				equal(t, words, wantWords)
				weights = append(weights, make([]float32, n)...)
				o.PairBF16(weights, weights, keys, n)
				equal(t, weights[:pairs*n], wantWeights)

				s[0], s[1] = 1, 1
				o.PairBF16(weights, s, keys, n)
				got, want := slices.Clone(out), slices.Clone(out)
				p.ValuesBF16(got, words, weights, alpha, pairs, dim, v)
				valuesBF16(want, words, weights, alpha, pairs, dim, n)
				for i := range got {
					near(t, "values", float64(got[i]), float64(want[i]), 1e-5)
				}
			}
		}
	}
}
