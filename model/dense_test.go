package model_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/model"
)

func logits(t *rapid.T, n int) []float32 {
	l := make([]float32, n)
	for i := range l {
		l[i] = float32(rapid.Float64Range(-30, 30).Draw(t, "logit"))
		if i%3 > 0 && rapid.IntRange(0, 5).Draw(t, "never") == 0 {
			l[i] = float32(math.Inf(-1))
		}
	}
	return l
}

func probabilities(logits []float32) []float64 {
	p, sum := make([]float64, len(logits)), 0.0
	for i, l := range logits {
		p[i] = math.Exp(float64(l))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func stats(n int) *model.Stats {
	f := func() []float64 { return make([]float64, n) }
	return &model.Stats{LogMoment: f(), Entropy: f(), P1: f(), P2: f(), LogSum: f(),
		Arg: make([]int32, n)}
}

func TestReductionsAreTheirDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const columns = 9
		d := &model.Dense{Logits: logits(t, 3*columns), Columns: columns, Outcomes: 7}
		s := stats(1)
		s.Beta = rapid.Float64Range(0.5, 5).Draw(t, "beta")
		require.NoError(t, d.Stats([]int32{1}, s))
		row := d.Logits[columns : columns+7]
		p := probabilities(row)
		moment, entropy := 0.0, 0.0
		for _, x := range p {
			if x > 0 {
				moment += math.Pow(x, s.Beta)
				entropy -= x * math.Log(x)
			}
		}
		require.InDelta(t, math.Log(moment), s.LogMoment[0], 1e-9)
		require.InDelta(t, entropy, s.Entropy[0], 1e-9)
		sorted := slices.Sorted(slices.Values(p))
		require.InDelta(t, sorted[6], s.P1[0], 1e-12)
		require.InDelta(t, sorted[5], s.P2[0], 1e-12)
		require.Equal(t, slices.Index(row, slices.Max(row)), int(s.Arg[0]))
	})
}

func TestDrawIsTheInverseOfTheCumulativeSum(t *testing.T) {
	d := &model.Dense{Columns: 4,
		Logits: []float32{float32(math.Log(0.1)), float32(math.Inf(-1)), float32(math.Log(0.6)),
			float32(math.Log(0.3))}}
	draw := func(power, u float64) int32 {
		w := &model.Draw{Power: power, Uniform: []float64{u}, Token: make([]int32, 1),
			LogP: make([]float64, 1)}
		require.NoError(t, d.Sample([]int32{0}, w))
		require.InDelta(t, float64(d.Logits[w.Token[0]]), w.LogP[0], 1e-6)
		return w.Token[0]
	}
	for _, c := range []struct {
		power, u float64
		want     int32
	}{
		{1, 1e-16, 0}, {1, 0.0999, 0}, {1, 0.1001, 2}, {1, 0.6999, 2}, {1, 0.7001, 3}, {1, 1 - 1e-16, 3},
		{2, 0.0217 - 1e-3, 0}, {2, 0.0218 + 1e-3, 2}, {2, 0.802, 2}, {2, 0.806, 3}, {0, 0.7001, 3},
	} {
		require.Equal(t, c.want, draw(c.power, c.u), "%v", c)
	}
}

func TestRowsThatAreNoDistribution(t *testing.T) {
	inf := float32(math.Inf(1))
	for want, row := range map[string][]float32{
		"a logit is NaN":         {0, float32(math.NaN()), 1},
		"a logit is +Inf":        {0, inf, 1},
		"no outcome is possible": {-inf, -inf, -inf},
	} {
		d := &model.Dense{Columns: 3, Logits: append(make([]float32, 3), row...)}
		for _, m := range []model.Marginals{d,
			&model.Filtered{Base: d, Filter: &model.Filter{Temperature: 2}, Outcomes: 3}} {
			err := m.Stats([]int32{0, 1}, stats(2))
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "row 1")
			w := &model.Draw{Uniform: []float64{0.5, 0.5}, Token: make([]int32, 2)}
			require.ErrorContains(t, m.Sample([]int32{0, 1}, w), want)
		}
	}
}

func filtered(row []float32, f model.Filter) []float32 {
	var out []float32
	m := &model.Filtered{Base: &model.Dense{Columns: len(row), Logits: row}, Filter: &f,
		Outcomes: len(row)}
	if err := m.Visit([]int32{0},
		func(_ int, logits []float32) { out = slices.Clone(logits) }); err != nil {
		panic(err)
	}
	return out
}

func TestFilter(t *testing.T) {
	never := float32(math.Inf(-1))
	row := []float32{1, 3, 2, 3, 0}
	require.Equal(t, []float32{never, 3, never, never, never}, filtered(row, model.Filter{TopK: 1}))
	require.Equal(t, []float32{never, 3, 2, 3, never}, filtered(row, model.Filter{TopK: 3}))
	require.Equal(t, row, filtered(row, model.Filter{TopK: 9}))
	// p = 0.053 0.391 0.144 0.391 0.019
	require.Equal(t, []float32{never, 3, never, never, never}, filtered(row, model.Filter{TopP: 0.3}))
	require.Equal(t, []float32{never, 3, never, 3, never}, filtered(row, model.Filter{TopP: 0.5}))
	require.Equal(t, []float32{never, 3, 2, 3, never}, filtered(row, model.Filter{TopP: 0.8}))
	require.Equal(t, []float32{2, 6, 4, 6, 0}, filtered(row, model.Filter{Temperature: 0.5}))
	require.Equal(t, []float32{1, never, 7, 3, 0},
		filtered(row, model.Filter{Ban: []int32{1}, Bias: map[int32]float32{2: 5}}))
	require.Equal(t, []float32{1, 3, 2, 3, 0}, row, "the matrix itself stays")
	require.True(t, (&model.Filter{Temperature: 1, TopP: 1}).IsNeutral())
}

// The nucleus is the smallest set of the most probable outcomes that reaches p.
func TestNucleusIsSmallest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := logits(t, 8)
		p := rapid.Float64Range(0.01, 0.99).Draw(t, "p")
		before, after := probabilities(row), filtered(row, model.Filter{TopP: p})
		kept, least := 0.0, 1.0
		for i, l := range after {
			if l != float32(math.Inf(-1)) {
				kept += before[i]
				least = min(least, before[i])
			}
		}
		require.GreaterOrEqual(t, kept, p-1e-9)
		require.Less(t, kept-least, p+1e-9)
	})
}
