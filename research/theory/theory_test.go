package theory_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/exact"
	"unmask/generate"
	"unmask/research/theory"
	"unmask/samplers"
)

// Every claim of the paper holds; the command also runs larger cases.
func TestClaims(t *testing.T) {
	text, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	image, err := unmask.LoadFS(demo.Image(), "demo", unmask.Options{})
	require.NoError(t, err)
	o := theory.Options{Draws: 2000, Most: 1024, Networks: []theory.Network{
		{Name: "text", Denoiser: text.Denoiser, Sequences: 3},
		{Name: "images", Denoiser: image.Denoiser, Sequences: 6}}}
	claims, curves := map[string]int{}, map[string]bool{}
	for r, err := range theory.Run(t.Context(), o) {
		require.NoError(t, err)
		require.True(t, r.Holds, r)
		t.Log(r)
		claims[r.Claim]++
		for _, p := range r.Points {
			require.False(t, math.IsNaN(p.X+p.Y+p.Error), p)
			curves[r.Claim+": "+p.Curve] = true
		}
	}
	require.Len(t, claims, 6)
	require.Equal(t, 2, claims["partial caching"])
	for _, curve := range []string{"proposition 1: measured", "theorem 1: k = 4", "theorem 1: bound",
		"implicit temperature: p^beta",
		"equation 5: exploration", "equation 5: hybrid, a-b+c", "partial caching: text, cached",
		"partial caching: images, uncached"} {
		require.True(t, curves[curve], curve)
	}
}

// False statements are detected: the chi-square detects a slightly wrong distribution, the estimate
// of the total variation distance equals the enumerated one, and both sides of equation 5 have the
// known values of a product.
func TestChecksCanFail(t *testing.T) {
	p := []float64{0.5, 0.3, 0.2}
	chi, bound := theory.ChiSquare([]float64{5000, 3000, 2000}, theory.Scale(p, 10000))
	require.Zero(t, chi)
	require.InDelta(t, 2*math.Log(1e5), bound, 1e-6) // two degrees of freedom
	chi, _ = theory.ChiSquare([]float64{5300, 2800, 1900}, theory.Scale(p, 10000))
	require.Greater(t, chi, bound)
	chi, _ = theory.ChiSquare([]float64{5000, 3000, 1}, []float64{5000, 3000, 0})
	require.True(t, math.IsInf(chi, 1))

	m := exact.Markov(4, 3, 0.5, 2, 1)
	sampler, err := samplers.Parse("temp(alpha=1)")
	require.NoError(t, err)
	count, err := theory.Count(t.Context(), m,
		generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: sampler,
			Steps: 4}}}, 2000)
	require.NoError(t, err)
	chi, bound = theory.ChiSquare(count, theory.Scale(theory.Joint(m), 2000))
	require.Greater(t, chi, bound)
}

func TestEstimateAgainstEnumeration(t *testing.T) {
	for n, k := range map[int]int{6: 2, 9: 1, 8: 3} {
		p := theory.Distributions(n, 2, 4)
		want := theory.Variation(theory.Round(p, k, 3))
		got, half := theory.EstimateVariation(p, k, 3, 1)
		require.InDelta(t, want, got, half+0.05*want, "n=%d k=%d", n, k)
	}
}

func TestCommittedSumsToOne(t *testing.T) {
	maskgit, moment := theory.EnumerateRounds(exact.Markov(3, 3, 0.5, 2, 1), 1)
	for _, p := range [][]float64{maskgit, moment} {
		sum := 0.0
		for _, v := range p {
			sum += v
		}
		require.InDelta(t, 1, sum, 1e-12)
	}
}

// For a product nothing is lost, and the bound is its own entropy. For two equal tokens that open
// together the loss is log 2.
func TestDecompose(t *testing.T) {
	product := theory.Decompose(exact.Product(4, 3, 2, 1), []int{0, 2})
	h, _ := exact.Product(4, 3, 2, 1).Entropy()
	require.InDelta(t, 0, product.KL, 1e-9)
	require.InDelta(t, product.Exploitation, product.Dispersion, 1e-9)
	require.InDelta(t, h, product.Exploitation+product.Exploration, 1e-9)

	pair := exact.Ising(1, 2, 5, 0) // almost always equal
	require.InDelta(t, math.Log(2), theory.Decompose(pair, []int{0, 1}).KL, 0.01)
	require.InDelta(t, 0, theory.Decompose(pair, []int{0}).KL, 1e-9)
}

func TestBound(t *testing.T) {
	require.InDelta(t, 5*math.Sqrt(0.04)*(1+math.Sqrt(math.Log(25))), theory.Bound(100, 1, 4, 1), 1e-9)
	require.InDelta(t, 10, theory.Bound(4, 2, 4, 1), 1e-9) // no logarithm above 1
}
