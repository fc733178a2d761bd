package samplers

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOutlineKeepsTheMostProbable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float32Range(0, 1), 1, 200).Draw(t, "p")
		var o outline
		o.keep([]float32{0.5})
		o.keep(p)
		sorted := slices.Clone(p)
		slices.SortFunc(sorted, func(a, b float32) int { return int(math.Copysign(1, float64(b-a))) })
		require.Len(t, o.p, min(len(p), outlineSize))
		for j, x := range o.token {
			require.Equal(t, float64(sorted[j]), o.p[j])
			require.Equal(t, sorted[j], p[x])
		}
		require.LessOrEqual(t, cap(o.p), outlineSize)
	})
}

// With all outcomes kept the divergence is the KL itself, with fewer a lower bound.
func TestOutlineDivergence(t *testing.T) {
	for _, n := range []int{10, 500} {
		a, b := make([]float32, n), make([]float32, n)
		for i := range a {
			a[i], b[i] = 5*float32(math.Sin(float64(i))), 5*float32(math.Sin(float64(i)+0.2))
		}
		p, q := slices.Clone(a), slices.Clone(b)
		softmax(p)
		softmax(q)
		kl := 0.0
		for i := range p {
			kl += float64(q[i]) * math.Log(float64(q[i])/float64(p[i]))
		}
		var o outline
		require.True(t, math.IsInf(o.compare(a), 1))
		got := o.compare(b)
		require.Greater(t, kl, 0.01)
		if n <= outlineSize {
			require.InDelta(t, kl, got, 1e-5)
		} else {
			require.LessOrEqual(t, got, kl)
			require.Greater(t, got, kl/10)
		}
	}
}
