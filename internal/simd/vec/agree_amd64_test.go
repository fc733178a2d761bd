//go:build !purego

package vec

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/simd"
)

// TestAgree: AVX2 and AVX-512 have the same bits in everything.
func TestAgree(t *testing.T) {
	if simd.Available()[0].ISA != simd.AVX512 {
		t.Skip("needs AVX-512")
	}
	x := sample(1 << 14)
	for _, f := range []func(o Ops, dst, x []float32){Ops.Exp, Ops.GELUTanh, Ops.GELUErf, Ops.SiLU, Ops.ReLU} {
		a, b := make([]float32, len(x)), make([]float32, len(x))
		f(avx2, a, x)
		f(avx512, b, x)
		equal(t, b, a)
	}
	for n := 1; n < 200; n += 1 + n/20 {
		run := func(o Ops) []float32 {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			x, a, b := normal(r, n), normal(r, n), normal(r, n)
			top := slices.Max(x)
			s, d := o.SumExpDot(x, top)
			second, first := o.Leaders(x, top)
			out := []float32{second, float32(first), o.Sum(x), o.SumSquares(x, 0.1), o.SumExp(x, 1.7, top), s, d}
			dst := make([]float32, n)
			keep := func() { out = append(out, dst...) }
			o.LayerNorm(dst, x, a, b, 1e-5)
			keep()
			o.LayerNorm(dst, x, nil, nil, 1e-5)
			keep()
			o.Weights(dst, x, 0.7, top)
			keep()
			out = append(out, o.Logits(dst, a, 1.3))
			keep()
			o.Modulate(dst, a, b)
			o.MulAdd(dst, a, x)
			o.Add(dst, b)
			o.Maximum(dst, a)
			keep()
			o.Affine(dst, x, a, b)
			keep()
			h := n / 2
			o.Rotate(dst[:2*h], x[:2*h], a[:h], b[:h])
			keep()
			image := normal(r, 5*n)
			o.ColumnSums(dst, image)
			keep()
			o.ColumnSquares(dst, image, a)
			keep()
			return out
		}
		equal(t, run(avx512), run(avx2))
	}
}

// TestAgreePanels: the lanes of all panels have the same bits.
func TestAgreePanels(t *testing.T) {
	var all []Panel
	for _, l := range simd.Available() {
		if l.ISA == simd.AVX2 || l.ISA == simd.AVX512 && len(all) == 0 {
			all = append(all, Ops(l.ISA).Panels()...)
		}
	}
	const dim, common = 20, 8
	blocks := []int{13, 8, 1}
	var want []float32
	for _, p := range all {
		r := rand.New(rand.NewPCG(2, 3))
		k, v, q := normal(r, 22*dim), normal(r, 22*dim), normal(r, dim*common)
		n := p.Lanes()
		spread := make([]float32, dim*n)
		for d := range dim {
			copy(spread[d*n:], q[d*common:(d+1)*common])
		}
		o := make([]float32, dim*n)
		s, top, sum, alpha := make([]float32, 13*n), make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range top {
			top[i] = -inf
		}
		at := 0
		for _, b := range blocks {
			p.Scores(s, k[at*dim:], spread, b, dim, nil)
			p.Softmax(s, top, sum, alpha, b)
			p.Values(o, v[at*dim:], s, alpha, b, dim, nil)
			at += b
		}
		var got []float32
		for d := range dim {
			got = append(got, o[d*n:d*n+common]...)
		}
		got = append(got, sum[:common]...)
		if want == nil {
			want = got
			require.NotContains(t, got, nan)
		}
		equal(t, got, want)
	}
}
