package experiments

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// measureOf returns a measure with a standard error.
func measureOf(value, standardError float64) Measure {
	m := Measure{Value: value}
	step := standardError / math.Sqrt(JackknifeGroups-1)
	for g := range JackknifeGroups {
		sign := float64(1 - 2*(g%2))
		m.LeaveOneOut = append(m.LeaveOneOut, value+sign*step)
	}
	return m
}

// Probabilities are those of tables of Student's distribution with nine degrees of freedom.
func TestStudent(t *testing.T) {
	m := measureOf(2.262, 1)
	require.InDelta(t, 1, m.Error(), 1e-12)
	require.InDelta(t, 0.025, above(m, 0).p(), 1e-4)
	require.InDelta(t, 0.975, below(m, 0).p(), 1e-4)
	require.InDelta(t, 0.05, above(measureOf(1.833, 1), 0).p(), 1e-4)
	require.InDelta(t, 0.5, above(measureOf(7, 1), 7).p(), 1e-12)
}

// The example of Holm's method: probabilities 0.01, 0.04 and 0.03 become 0.03, 0.06 and 0.06.
func TestHolm(t *testing.T) {
	var tests []test
	for _, distance := range []float64{2.821, 1.972, 2.150} { // quantiles of 0.01, 0.04 and 0.03
		tests = append(tests, above(measureOf(distance, 1), 0))
	}
	adjusted := adjustHolm(tests)
	require.InDelta(t, 0.03, adjusted[0], 1e-3)
	require.InDelta(t, 0.06, adjusted[1], 1e-3)
	require.InDelta(t, 0.06, adjusted[2], 1e-3)
	require.True(t, oneSucceeds(tests, 0.031))
	require.False(t, oneSucceeds(tests, 0.025))
	require.False(t, allSucceed(tests, 0.05))
	require.True(t, allSucceed(tests, 0.065))
	require.False(t, allSucceed(nil, 1))
}

// Equality is decided by its margin: a value near it with a small error is equal, one far away is
// not, and a large error decides nothing.
func TestEqualityNeedsAMargin(t *testing.T) {
	decide := func(value, standardError float64) Verdict {
		m := measureOf(value, standardError)
		return Verdict{}.decideEqual(within(m, 0, 1), outside(m, 0, 1))
	}
	require.Equal(t, "holds", decide(0.2, 0.1).Word())
	require.Equal(t, "does not hold", decide(2, 0.1).Word())
	require.Equal(t, "undecided", decide(0, 3).Word())
	require.Equal(t, "undecided", decide(0.95, 0.1).Word())
	var unknown Measure // without an error
	v := Verdict{}.decideEqual(within(unknown, 0, 1), outside(unknown, 0, 1))
	require.Equal(t, "undecided", v.Word())
}

// measureChain measures a sampler on an exact chain with one seed.
func measureChain(t *testing.T, sampler string, seed uint64) Metrics {
	p := Point{Sampler: sampler, Steps: 4, Seed: seed, N: 40, Batch: 40}
	if sampler == "temp" {
		p.Alpha = 1
	}
	r, err := MeasurePoint(t.Context(), chain(), p, nil)
	require.NoError(t, err)
	return r.Metrics
}

// One sampler under two names differs in at most one test of twenty, by every metric with an error;
// another sampler differs.
func TestOneSamplerUnderTwoNames(t *testing.T) {
	const seeds = 200
	differs := map[string]int{}
	planted := map[string]int{}
	var means []float64
	var errors float64
	for seed := range uint64(seeds) {
		a := measureChain(t, "random", seed)
		b := measureChain(t, "random", seeds+seed)
		other := measureChain(t, "temp", 2*seeds+seed)
		for name, m := range a {
			if !m.hasError() {
				continue
			}
			count := func(counts map[string]int, from Measure) {
				difference := combine(subtract, m, from)
				counts[name] += 0
				if oneSucceeds(outside(difference, 0, 0), sideLevel*2) {
					counts[name]++
				}
			}
			count(differs, b[name])
			count(planted, other[name])
		}
		means = append(means, a["entropy"].Value)
		errors += a["entropy"].Error() * a["entropy"].Error() / seeds
	}
	require.NotEmpty(t, differs)
	for name, n := range differs {
		t.Logf("%s: %d of %d differ; of another sampler %d", name, n, seeds, planted[name])
		require.LessOrEqual(t, n, seeds/20, name)
	}
	require.Greater(t, planted["entropy"], seeds*9/10)

	// The errors are those that the values of many seeds show.
	var spread float64
	for _, x := range means {
		spread += (x - mean(means)) * (x - mean(means)) / float64(seeds-1)
	}
	require.InEpsilon(t, spread, errors, 0.3)
}
