package judges_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/research/judges"
	"unmask/samplers"
)

// A schedule optimised on an exact model loses less than equal steps do.
func TestProfileOptimisesASchedule(t *testing.T) {
	m, err := exact.Parse("hmm:length=48,tokens=4,hidden=3,stay=0.9")
	require.NoError(t, err)
	var data [][]int32
	for i := range uint32(40) {
		data = append(data, m.Sample(1, i))
	}
	profile, err := judges.Profile(t.Context(), exact.NewDenoiser(m), data, 2)
	require.NoError(t, err)
	all, _ := profile(1)
	few, _ := profile(0.05)
	require.Greater(t, few, all+0.05, "the more is known, the better")
	value := func(times []float64) (sum float64) {
		before := 1.0
		for _, at := range times {
			p, err := profile(before)
			require.NoError(t, err)
			sum += (before - at) * p
			before = at
		}
		return sum
	}
	times, err := samplers.JYS(4, profile)
	require.NoError(t, err)
	require.Greater(t, value(times), value([]float64{0.75, 0.5, 0.25, 0}))
	_, err = judges.Profile(t.Context(), exact.NewDenoiser(m), nil, 2)
	require.EqualError(t, err, "a profile of no data, want one sequence at least")
	_, err = judges.Profile(t.Context(), exact.NewDenoiser(m), [][]int32{{1, 4}}, 2)
	require.EqualError(t, err,
		"sequence 0 of the data has masks or unknown tokens, want 0 to 3")
}
