package samplers_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
)

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
