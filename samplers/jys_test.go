package samplers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
	"unmask/testkit/parity"
)

// jysCost is the cost of a schedule by its numbers of masks, which end at 0.
func jysCost(masks []int, profile []float64) (nats float64) {
	before := len(profile)
	for _, m := range masks {
		nats -= float64(before-m) * profile[before-1]
		before = m
	}
	return nats
}

// cheapest tries all schedules of `steps` steps from `before` masks to none.
func cheapest(steps, before int, profile []float64) float64 {
	if steps == 1 {
		return jysCost([]int{0}, profile[:before])
	}
	least := math.Inf(1)
	for m := steps - 1; m < before; m++ {
		least = min(least, jysCost([]int{m}, profile[:before])+cheapest(steps-1, m, profile))
	}
	return least
}

func TestJYSIsTheBestSchedule(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for length := range 10 {
		profile := make([]float64, length+1)
		for m := range profile {
			profile[m] = -r.Float64() // whether or not it falls
		}
		for steps := 1; steps <= len(profile); steps++ {
			times, err := samplers.JYS(steps, profile)
			require.NoError(t, err)
			_, err = samplers.TimesSchedule(times)
			require.NoError(t, err)
			var masks []int
			for _, x := range times {
				masks = append(masks, int(math.Round(x*float64(len(profile)))))
			}
			require.Len(t, masks, steps)
			require.InDelta(t, cheapest(steps, len(profile), profile), jysCost(masks, profile), 1e-6)
		}
	}
	times, err := samplers.JYS(4, slices.Repeat([]float64{-1}, 16)) // all schedules cost the same
	require.NoError(t, err)
	require.Equal(t, []float64{0.75, 0.5, 0.25, 0}, times)
	for _, steps := range []int{0, 17} {
		_, err = samplers.JYS(steps, make([]float64, 16))
		require.EqualError(t, err, fmt.Sprintf("samplers: jys with %d steps, want 1 to 16", steps))
	}
}

func TestTimesAreASchedule(t *testing.T) {
	s, err := samplers.TimesSchedule([]float64{0.9, 0.5, 0})
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
		_, err := samplers.TimesSchedule(times)
		require.EqualError(t, err, want)
	}
}

// JYS's schedules have the cost of the optimal schedules of arXiv 2511.04647, and their counts
// where no other schedule costs as little.
func TestJYSIsTheOptimalSchedule(t *testing.T) {
	for _, pack := range []string{"samplers-2026-1", "samplers-2026-2", "samplers-2026-3"} {
		p := parity.Open(t, pack)
		curve, _ := p.Floats("curve")
		cost, _ := p.Floats("cost")
		profile := make([]float64, len(curve))
		for open, entropy := range curve {
			profile[len(curve)-1-open] = -float64(entropy)
		}
		for steps := 1; steps <= len(curve); steps++ {
			times, err := samplers.JYS(steps, profile)
			require.NoError(t, err)
			found, err := samplers.TimesSchedule(times)
			require.NoError(t, err)
			require.InDelta(t, cost[steps-1], samplers.ScheduleKL(found, steps, profile), 1e-6)

			want, _ := p.Ints(fmt.Sprintf("counts_%d", steps))
			var counts []int32
			before := 0
			for n := 1; n <= steps; n++ {
				after := samplers.OpenCount(found, float64(n), steps, len(curve))
				counts = append(counts, int32(after-before))
				before = after
			}
			require.Equal(t, want, counts, "%s, %d steps", pack, steps)

			even := samplers.ScheduleKL(samplers.Uniform, steps, profile)
			require.GreaterOrEqual(t, even, float64(cost[steps-1])-1e-6)
		}
	}
}
