package experiments

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// An error shrinks with the square root of the number of samples; the value stays.
func TestShrunk(t *testing.T) {
	m := Measure{Value: 3}
	for g := range Groups {
		m.Without = append(m.Without, 3+0.1*math.Sin(float64(g)))
	}
	require.Equal(t, m, m.shrunk(0))
	require.Equal(t, m, m.shrunk(1))
	for _, more := range []float64{2, 4, 100} {
		s := m.shrunk(more)
		require.Equal(t, m.Value, s.Value)
		require.InDelta(t, m.Error()/math.Sqrt(more), s.Error(), 1e-12)
	}
	require.Equal(t, Measure{Value: 3}, Measure{Value: 3}.shrunk(4))
}

// An undecided claim is decided by about the number of samples that Decides gives: its difference
// is then beyond 2.262 standard errors.
func TestSamplesThatWouldDecide(t *testing.T) {
	var all []Result
	for _, kind := range []string{"text", "image"} {
		_, results, _, err := ReadJournal("../../docs/reproduction/results-" + kind + ".jsonl")
		require.NoError(t, err)
		all = append(all, results...)
	}
	said := 0
	measured := Default.WithSamples(60) // as docs/reproduction.md says
	for _, size := range []Size{Quick, measured, Full} {
		list, samples := verdicts(all, size, 1)
		for i, v := range Verdicts(all, size) {
			require.Equal(t, list[i].Decided, v.Decided)
			switch {
			case v.Decided:
				require.Zero(t, v.Decides, v.Claim)
			case v.Decides > 0:
				said++
				require.Greater(t, v.Decides, samples[i], v.Claim)
				t.Log(size.Name, v.Claim, samples[i], v.Decides)
				again, _ := verdicts(all, size, 1.01*float64(v.Decides)/float64(samples[i]))
				require.True(t, again[i].Decided, v.Claim)
			}
		}
	}
	require.Positive(t, said)
}
