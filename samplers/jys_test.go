package samplers_test

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
)

// known returns the mean log-probability of tokens drawn with a schedule of times; larger is
// better.
func known(times []float64, profile func(float64) (float64, error)) (sum float64) {
	before := 1.0
	for _, t := range times {
		p, _ := profile(before)
		sum += (before - t) * p
		before = t
	}
	return sum
}

func TestJYSBeatsEqualSteps(t *testing.T) {
	for _, power := range []float64{0.3, 1, 4} {
		profile := func(t float64) (float64, error) { return -math.Pow(t, power), nil }
		for _, steps := range []int{1, 2, 3, 8, 13, 16} {
			times, err := samplers.JYS(steps, profile)
			require.NoError(t, err)
			require.Len(t, times, steps)
			equal := make([]float64, steps)
			for i := range equal {
				equal[i] = 1 - float64(i+1)/float64(steps)
			}
			if power == 1 && steps&(steps-1) == 0 { // equal steps are best
				require.InDeltaSlice(t, equal, times, 1e-3)
				continue
			}
			if steps&(steps-1) == 0 {
				require.GreaterOrEqual(t, known(times, profile), known(equal, profile)-1e-9, "%v %d", power,
					steps)
			}
			_, err = samplers.Times(times)
			require.NoError(t, err)
		}
	}
	// Two steps of -t^4: (1-b)*(-1) - b*b^4 is largest at b = 5^(-1/4).
	times, err := samplers.JYS(2, func(t float64) (float64, error) { return -math.Pow(t, 4), nil })
	require.NoError(t, err)
	require.InDelta(t, math.Pow(5, -0.25), times[0], 1e-3)
	broken := errors.New("no")
	_, err = samplers.JYS(4, func(float64) (float64, error) { return 0, broken })
	require.ErrorIs(t, err, broken)
	_, err = samplers.JYS(0, nil)
	require.EqualError(t, err, "samplers: jys with 0 steps, want 1 to 65536")
}

func TestTimesAreASchedule(t *testing.T) {
	s, err := samplers.Times([]float64{0.9, 0.5, 0})
	require.NoError(t, err)
	require.Equal(t, []int{0, 5, 10, 30, 50, 100},
		[]int{s.At(0, 3, 100), s.At(0.5, 3, 100), s.At(1, 3, 100), s.At(1.5, 3, 100), s.At(2, 3, 100),
			s.At(3, 3, 100)})
	require.Equal(t, 50, s.At(4, 6, 100))
	for want, times := range map[string][]float64{
		"samplers: the last of 0 times is 1, want 0":                       nil,
		"samplers: the last of 1 times is 0.5, want 0":                     {0.5},
		"samplers: time 2 of the schedule is 0.6, want 0 to less than 0.5": {0.5, 0.6, 0},
		"samplers: time 1 of the schedule is NaN, want 0 to less than 1":   {math.NaN(), 0},
	} {
		_, err := samplers.Times(times)
		require.EqualError(t, err, want)
	}
}
