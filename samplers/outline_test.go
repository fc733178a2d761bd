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
		p := rapid.SliceOfN(rapid.Float32Range(-9, 9), 1, 600).Draw(t, "logits")
		var o outline
		o.keep([]float32{0.5}, 0)
		o.keep(p, 1)
		sorted := slices.Clone(p)
		slices.SortFunc(sorted, func(a, b float32) int { return int(math.Copysign(1, float64(b-a))) })
		require.Len(t, o.p, min(len(p), outlineSize))
		for j, x := range o.token {
			require.Equal(t, math.Exp(float64(sorted[j])-1), o.p[j])
			require.Equal(t, sorted[j], p[x])
		}
		require.LessOrEqual(t, cap(o.p), outlineSize)
	})
}

// If all outcomes are kept the divergence is the KL itself; otherwise it is a lower bound.
func TestOutlineDivergence(t *testing.T) {
	for _, n := range []int{10, 500} {
		a, b := make([]float32, n), make([]float32, n)
		for i := range a {
			a[i], b[i] = 5*float32(math.Sin(float64(i))), 5*float32(math.Sin(float64(i)+0.2))
		}
		sum := func(x []float32) (log float64) {
			for _, l := range x {
				log += math.Exp(float64(l))
			}
			return math.Log(log)
		}
		kl := 0.0
		for i := range a {
			logP, logQ := float64(a[i])-sum(a), float64(b[i])-sum(b)
			kl += math.Exp(logQ) * (logQ - logP)
		}
		var o outline
		require.True(t, math.IsInf(o.updateKL(a, sum(a)), 1))
		got := o.updateKL(b, sum(b))
		require.Greater(t, kl, 0.01)
		if n <= outlineSize {
			require.InDelta(t, kl, got, 1e-5)
		} else {
			require.LessOrEqual(t, got, kl)
			require.Greater(t, got, kl/10)
		}
	}
}
