package experiments

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
	"unmask/samplers"
)

// The jackknife of a mean with one sample a part is the classical standard error.
func TestErrorOfMean(t *testing.T) {
	values := []float64{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4}
	var all tally
	for _, v := range values {
		all.add(v, 1)
	}
	m, ok := all.measure(func(v float64) float64 { return v })
	require.True(t, ok)
	require.InDelta(t, mean(values), m.Value, 1e-12)
	// Parts of two: the error is that of the ten part means.
	var parts []float64
	for g := range JackknifeGroups {
		parts = append(parts, (values[g]+values[g+JackknifeGroups])/2)
	}
	require.InDelta(t, deviation(parts)/math.Sqrt(JackknifeGroups), m.Error(), 1e-12)

	// Twice the mean has twice the error, and a difference with itself has none.
	double := combine(func(v []float64) float64 { return 2 * v[0] }, m)
	require.InDelta(t, 2*m.Error(), double.Error(), 1e-12)
	require.Zero(t, combine(subtract, m, m).Error())
	require.Less(t, above(m, m.Value-3*m.Error()).p(), sideLevel)
	require.Greater(t, above(m, m.Value-2*m.Error()).p(), sideLevel)
	require.Less(t, below(m, m.Value+3*m.Error()).p(), sideLevel)
	require.False(t, combine(subtract, m, Measure{Value: 1}).hasError())

	var few tally
	_, ok = few.measure(math.Exp)
	require.False(t, ok)
	few.add(1, 1)
	m, ok = few.measure(math.Exp)
	require.True(t, ok)
	require.InDelta(t, math.E, m.Value, 1e-12)
	require.False(t, m.hasError())
}

// A mean whose weight is all in one part has no error, and can be written as JSON.
func TestWeightInOnePart(t *testing.T) {
	var all tally
	for i := range 3 * JackknifeGroups {
		all.add(0.5, float64(i/(3*JackknifeGroups-1)))
	}
	m, ok := all.measure(func(v float64) float64 { return v })
	require.True(t, ok)
	require.Equal(t, Measure{Value: 0.5}, m)
	_, err := json.Marshal(m)
	require.NoError(t, err)
}

// Fixed in 32 bits draws from p: with a few outcomes the coarse uniform numbers do not matter.
func TestFixedFollowsP(t *testing.T) {
	logits := []float32{0, 1, 2, -1}
	const n = 20000
	counts := make([]float64, len(logits))
	v := &samplers.View{Masked: []int{0}, Outcomes: len(logits), Quota: 1, Tokens: []int32{4}, Mask: 4,
		Step: 1, Steps: 1}
	v.Visit = func(positions []int, visit func(i int, logits []float32)) error {
		visit(0, append([]float32(nil), logits...))
		return nil
	}
	for i := range n {
		v.Rand.Sequence = uint32(i)
		o, err := Fixed{Bits: 32}.Choose(v)
		require.NoError(t, err)
		require.Equal(t, []int{0}, o.Positions)
		counts[o.Tokens[0]]++
		v.Reset()
	}
	norm := float64(logSumExp(logits))
	var chi float64
	for x, l := range logits {
		want := n * math.Exp(float64(l)-norm)
		chi += (counts[x] - want) * (counts[x] - want) / want
	}
	require.Less(t, chi, 16.3) // 99.9 % with 3 degrees of freedom
}

// deviation returns the standard deviation of repeats, 0 of one.
func deviation(v []float64) float64 {
	if len(v) < 2 {
		return 0
	}
	m, sum := mean(v), 0.0
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(v)-1))
}

// A point without a length has the model's or, where that is a bound nobody means, the usual one.
func TestPointLength(t *testing.T) {
	p := Point{Sampler: "random", Steps: 1}
	for positions, want := range map[int]int{64: 64, 1024: 1024, 131072: 130} {
		o, err := p.Options(model.Spec{Shape: []int{positions}, BeforeText: []int32{0},
			AfterText: []int32{0}})
		require.NoError(t, err)
		require.Equal(t, want, o.Length)
	}
}

// Results that differ in their times and their machine are the same.
func TestDigestHasNoMachine(t *testing.T) {
	const here = `{"kind":"text","sampler":"random","steps":2,"seed":0,"n":4,"batch":4,` +
		`"machine":"one","metrics":{},"batch_seconds":[1]}`
	for name, c := range map[string]struct {
		from, to string
		same     bool
	}{"machine": {`"one"`, `"other"`, true}, "times": {`[1]`, `[2,3]`, true},
		"steps": {`"steps":2`, `"steps":3`, false}} {
		t.Run(name, func(t *testing.T) {
			there := strings.Replace(here, c.from, c.to, 1)
			require.NotEqual(t, "none", ResultDigest([]byte(there)))
			require.Equal(t, c.same, ResultDigest([]byte(here)) == ResultDigest([]byte(there)))
		})
	}
}
