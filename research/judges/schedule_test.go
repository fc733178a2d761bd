package judges_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/research/judges"
	"unmask/samplers"
)

// Schedules optimised on samples of an exact model cost about as little as the best one, and less
// than equal steps, by the entropies of all its sequences and sets of masks.
func TestProfileOptimisesASchedule(t *testing.T) {
	const length, steps = 8, 3
	m, err := exact.Parse("markov:length=8,tokens=3")
	require.NoError(t, err)
	truth := entropies(m)
	cost := func(times []float64) (nats float64) {
		before := length
		for _, x := range times {
			masks := int(math.Round(x * length))
			nats += float64(before-masks) * truth[before]
			before = masks
		}
		return nats
	}
	best := math.Inf(1)
	for a := 2; a < length; a++ {
		for b := 1; b < a; b++ {
			best = min(best, cost([]float64{float64(a) / length, float64(b) / length, 0}))
		}
	}
	even := cost([]float64{5. / length, 3. / length, 0})
	require.Greater(t, even, best+0.05)
	for seed := range uint64(4) {
		var data [][]int32
		for i := range uint32(400) {
			data = append(data, m.Sample(seed, i))
		}
		profile, err := judges.MeasureProfile(t.Context(), exact.NewDenoiser(m), data, seed)
		require.NoError(t, err)
		require.Len(t, profile, length)
		times, err := samplers.JYS(steps, profile)
		require.NoError(t, err)
		require.Less(t, cost(times), (even+best)/2, "seed %d: %v", seed, times)
	}
	_, err = judges.MeasureProfile(t.Context(), exact.NewDenoiser(m), nil, 2)
	require.EqualError(t, err, "a profile of no data, want one sequence at least")
	_, err = judges.MeasureProfile(t.Context(), exact.NewDenoiser(m), [][]int32{{1, 4}}, 2)
	require.EqualError(t, err,
		"sequence 0 of the data has masks or unknown tokens, want 0 to 2")
}

// entropies returns the mean entropy of a masked position by the number of masks, over all sets of
// masks and all sequences.
func entropies(m *exact.Model) []float64 {
	length, tokens := m.Length(), m.Tokens()
	sums, weights := make([]float64, length+1), make([]float64, length+1)
	x, p := make([]int32, length), make([]float64, length*tokens)
	for n := range int(math.Pow(float64(tokens+1), float64(length))) {
		masks := 0
		for i := range x {
			x[i] = int32(n % (tokens + 1))
			n /= tokens + 1
			if x[i] == int32(tokens) {
				masks++
			}
		}
		weight := math.Exp(m.Conditionals(p, x))
		weights[masks] += weight
		for i, token := range x {
			for _, q := range p[i*tokens : (i+1)*tokens] {
				if token == int32(tokens) && q > 0 {
					sums[masks] -= weight * q * math.Log(q) / float64(masks)
				}
			}
		}
	}
	for masks, weight := range weights {
		sums[masks] /= weight
	}
	return sums
}
