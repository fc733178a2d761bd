package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/bfloat16"
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
	s, top, sum, alpha := make([]float32, most*n), make([]float32, n), make([]float32, n),
		make([]float32, n)
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
		s, top, sum, alpha, out := normal(r, 5*n), normal(r, n), normal(r, n), make([]float32, n),
			normal(r, 4*n)
		for i := range s {
			s[i] = -inf
		}
		before, sums, outs := append([]float32(nil), top...), append([]float32(nil), sum...),
			append([]float32(nil), out...)
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

// TestFixed: attention with scores from 16-bit integers and rounded weights is what plain Go makes
// of it, and close to its formula.
func TestFixed(t *testing.T) {
	best := simd.Available()[0]
	if !best.BF16 || !best.VNNI {
		t.Skip("needs AVX512_VNNI and AVX512_BF16")
	}
	o, generic := Ops(best.ISA), Ops(simd.Generic)
	r := rand.New(rand.NewPCG(11, 12))
	for _, p := range o.Panels() {
		n := p.Lanes()
		for _, dim := range []int{16, 48, 64} {
			for _, keys := range []int{2, 8, 10, 42} {
				k, q := normal(r, keys*dim), normal(r, dim*n)
				clear(k[:dim])                                         // a key of zeros
				k[dim], q[0] = 100, -100                               // outliers
				for i, v := range []float32{0.5, 1.5, 2.5, -0.5, -1} { // halves
					k[dim+1+i] = 100 * v / fixedLimit(dim)
				}
				words, scale := make([]float32, keys*dim/2), make([]float32, keys)
				wantWords, wantScale := slices.Clone(words), slices.Clone(scale)
				o.FixRows(words, scale, k, keys, dim)
				generic.FixRows(wantWords, wantScale, k, keys, dim)
				equal(t, words, wantWords)
				equal(t, scale, wantScale)

				queries, unit := make([]float32, dim/2*n), make([]float32, n)
				wantQueries, wantUnit := slices.Clone(queries), slices.Clone(unit)
				p.FixQueries(queries, unit, q, dim)
				for j := 0; j < n; j += line {
					fixLanes(wantQueries[j:], wantUnit[j:j+line], q[j:], dim/2, n, fixedLimit(dim),
						1/fixedLimit(dim))
				}
				equal(t, queries, wantQueries)
				equal(t, unit, wantUnit)

				s := make([]float32, keys*n)
				p.ScoresFixed(s, words, scale, queries, keys, dim, k)
				want := slices.Clone(s)
				scoresFixed(want, words, scale, queries, keys, dim/2, n)
				equal(t, s, want)
				for i := range keys {
					for j := range n {
						var exact, rows, lanes float64 // lanes and rows: the largest
						for d := range dim {
							x, y := float64(k[i*dim+d]), float64(q[d*n+j])
							exact, rows, lanes = exact+x*y, max(rows, math.Abs(x)), max(lanes, math.Abs(y))
						}
						near(t, "score", float64(s[i*n+j]*unit[j]), exact,
							1.01*float64(dim)*rows*lanes/float64(fixedLimit(dim)))
					}
				}

				s[0], s[n] = -inf, -inf // a lane that sees fewer keys
				want = slices.Clone(s)
				top, sum, alpha := normal(r, n), normal(r, n), make([]float32, n)
				tops, sums, alphas := slices.Clone(top), slices.Clone(sum), slices.Clone(alpha)
				p.SoftmaxFixed(s, unit, top, sum, alpha, keys)
				for j := 0; j < n; j += line {
					softmaxFixed(want[j:], wantUnit[j:j+line], tops[j:], sums[j:], alphas[j:], keys/2, n)
				}
				for j := range n {
					near(t, "top", float64(top[j]), float64(tops[j]), 1e-6*math.Abs(float64(tops[j])))
					near(t, "sum", float64(sum[j]), float64(sums[j]), 1e-3)
					near(t, "alpha", float64(alpha[j]), float64(alphas[j]), 1e-5)
					for i := range keys / 2 {
						a, b := bfloat16.Halves(s[i*n+j])
						c, d := bfloat16.Halves(want[i*n+j])
						near(t, "weight", float64(a), float64(c), 8e-3*float64(c)+1e-37)
						near(t, "weight", float64(b), float64(d), 8e-3*float64(d)+1e-37)
					}
				}
			}
		}
	}
}

// TestFixedNaN: a key or a query that has a NaN or an infinity gets a scale that is not finite, so
// its scores tell.
func TestFixedNaN(t *testing.T) {
	eachOps(t, func(t *testing.T, o Ops) {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Copysign(math.NaN(), -1)), inf,
			-inf} {
			x := make([]float32, 32)
			x[5] = bad
			words, scale := make([]float32, 16), make([]float32, 1)
			o.FixRows(words, scale, x, 1, 32)
			require.False(t, scale[0]-scale[0] == 0, "scale %g of a key with %g", scale[0], bad)
			for _, p := range o.Panels() {
				n := p.Lanes()
				q, unit := make([]float32, 32*n), make([]float32, n)
				q[3*n+5] = bad
				p.FixQueries(make([]float32, 16*n), unit, q, 32)
				require.False(t, unit[5]-unit[5] == 0, "scale %g of a query with %g", unit[5], bad)
				require.True(t, unit[4]-unit[4] == 0, "the next query's is its own")
			}
		}
	})
}
