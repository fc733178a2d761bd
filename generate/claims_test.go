package generate_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
	"unmask/research/theory"
)

// counts generates n sequences and counts them by index.
func counts(t *testing.T, m *exact.Model, o generate.Options, n int) []float64 {
	out, err := theory.Count(t.Context(), m, o, n)
	require.NoError(t, err)
	return out
}

// chiSquare returns the statistic divided by the value that counts of the expected distribution
// stay below.
func chiSquare(count, expected []float64) float64 {
	chi, bound := theory.ChiSquare(count, expected)
	return chi / bound
}

func exactModel(t *testing.T, text string) *exact.Model {
	m, err := exact.Parse(text)
	require.NoError(t, err)
	return m
}

// With exact partial passes, two stages of one position each are two steps.
func TestPartialCachingDrawsTheConditional(t *testing.T) {
	m := exactModel(t, "markov:length=4,tokens=3,stay=0.5")
	truth := theory.Joint(m)
	const n = 3000
	for cache, steps := range map[int]int{1: 2, 3: 1} {
		// blocks of two take at least two steps
		for _, name := range theory.Unbiased[:len(theory.Unbiased)-1] {
			count := counts(t, m,
				generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t, name),
					Steps: steps, Cache: cache}, Seed: 2}}, n)
			require.Less(t, chiSquare(count, theory.Scale(truth, n)), 1.0, "%s with %d stages", name, cache)
		}
	}
}

// fixedMarginals has the same rows whichever positions are known.
type fixedMarginals struct {
	spec  model.Spec
	row   []float32 // [length, tokens]
	dense model.Dense
}

func (f *fixedMarginals) Spec() model.Spec { return f.spec }

func (f *fixedMarginals) Forward(_ context.Context, b *model.Batch) (model.Marginals, error) {
	f.dense.Columns, f.dense.Logits = f.spec.Outcomes, f.dense.Logits[:0]
	for range b.Size {
		f.dense.Logits = append(f.dense.Logits, f.row...)
	}
	return &f.dense, nil
}

// Vanilla opens each position with probability (t-s)/t and draws from p, in both precisions: with
// two outcomes, uniform numbers of 32 bits are fine enough.
func TestVanillaOpensByACoin(t *testing.T) {
	const n, steps, draws = 50, 4, 200
	d := &fixedMarginals{spec: model.Spec{Shape: []int{n}, Outcomes: 2, Mask: 2}}
	for range n {
		d.row = append(d.row, float32(math.Log(0.7)), float32(math.Log(0.3)))
	}
	for _, name := range []string{"vanilla", "vanilla(bits=32)"} {
		open, token := make([]float64, steps+1), make([]float64, 2)
		for step, err := range generate.Run(t.Context(), d,
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t, name),
				Steps: steps}}, N: draws,
				Batch: draws}) {
			require.NoError(t, err)
			require.Equal(t, steps+1, step.Steps)
			for _, q := range step.Sequences {
				open[step.N-1] += float64(len(q.Opened))
				for _, o := range q.Opened {
					token[o.Token]++
					require.InDelta(t, math.Log([]float64{0.7, 0.3}[o.Token]), o.LogP, 1e-6)
				}
			}
		}
		require.Less(t, chiSquare(open[:steps],
			theory.Scale([]float64{0.25, 0.25, 0.25, 0.25}, n*draws)), 1.0, name)
		require.Less(t, open[steps], 5.0)
		require.Less(t, chiSquare(token, theory.Scale([]float64{0.7, 0.3}, n*draws)), 1.0, name)
	}
}

// Many small steps of rules that open at random sample the joint distribution. This includes rules
// that close positions: remasking with the posterior's probabilities keeps the distribution.
func TestCoinsWithManySteps(t *testing.T) {
	m := exactModel(t, "markov:length=3,tokens=3,stay=0.5")
	truth := theory.Joint(m)
	const n = 1200
	for _, name := range []string{"vanilla", "vanilla(bits=32)", "remdm(eta=0.05)",
		"remdm(strategy=rescale,eta=0.1)", "remdm(strategy=loop)", "remdm(strategy=conf)",
		"remdm(strategy=psi,kappa=0.9)", "remdm(strategy=constant,eta=0.05,from=0.3,to=0.9)",
		"remdm(strategy=psi,kappa=0.95,noise=cosine)", "remdm(noise=cosine,eta=0.05)",
		"gibbs", "gibbs(sweeps=2)", "theta-trapezoidal", "theta-trapezoidal(theta=0.3)"} {
		closed := 0
		o := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t, name),
			Steps: 60}, Seed: 3,
			Edit: func(q *generate.Sequence) error { closed += len(q.Closed); return nil }}}
		count := counts(t, m, o, n)
		if name == "remdm(strategy=conf)" { // its sigma depends on the tokens: close, not exact
			require.Less(t, theory.Variation(count, theory.Scale(truth, n))/n, 0.08)
		} else {
			require.Less(t, chiSquare(count, theory.Scale(truth, n)), 1.0, name)
		}
		require.Equal(t, name[0] == 'r' || name[0] == 'g', closed > 0, name)
	}
}

// With constant marginals, a step of the trapezoid rule leaves a fraction exp(-theta*d/t -
// (1-theta)*d*(a1/t' - a2/t)) masked, close to the exact s/t.
func TestTrapezoidIsOfSecondOrder(t *testing.T) {
	const n, steps, theta = 20000, 4, 0.5
	d := &fixedMarginals{spec: model.Spec{Shape: []int{n}, Outcomes: 3, Mask: 3}}
	for range n {
		d.row = append(d.row, float32(math.Log(0.6)), float32(math.Log(0.3)), float32(math.Log(0.1)))
	}
	masked, token := float64(n), make([]float64, 3)
	expected := masked
	for step, err := range generate.Run(t.Context(), d,
		generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: parse(t,
			"theta-trapezoidal"), Steps: steps}}}) {
		require.NoError(t, err)
		require.Equal(t, 2*steps+1, step.Steps)
		for _, o := range step.Sequences[0].Opened {
			masked--
			token[o.Token]++
		}
		if step.N%2 == 0 && step.N < 2*steps {
			from := 1 - float64(step.N/2-1)/steps*(1-1e-5)
			to := 1 - float64(step.N/2)/steps*(1-1e-5)
			between := from - theta*(from-to)
			left := math.Exp(-theta*(from-to)/from - (1-theta)*(from-to)*(2/between-1/from))
			require.InDelta(t, to/from, left, 0.05*to/from)
			expected *= left
			require.InDelta(t, expected, masked, 4*math.Sqrt(n)/2)
		}
	}
	require.Zero(t, masked)
	require.Less(t, chiSquare(token, theory.Scale([]float64{0.6, 0.3, 0.1}, n)), 1.0)
}
