package samplers_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/samplers"
)

func TestAlphaAndBeta(t *testing.T) {
	require.Equal(t, 6*0.75, samplers.AlphaAt(6, 1, 4))
	require.Equal(t, 0.0, samplers.AlphaAt(6, 4, 4))
	require.Equal(t, 1+1/4.5, samplers.Beta(6, 1, 4))
	require.Equal(t, 1.0, samplers.Beta(6, 4, 4))
	require.Equal(t, samplers.Need{Beta: 1 + 1/4.5}, samplers.UMoment{}.Needs(1, 4))
	require.Equal(t, samplers.Need{}, samplers.UMoment{}.Needs(4, 4))
}

func TestTheLastStepHasNoTemperature(t *testing.T) {
	v := &samplers.View{Masked: []int{0, 1, 2}, Quota: 3, Steps: 4}
	for _, c := range []samplers.Sampler{samplers.Temp{Alpha: 3},
		samplers.ChooseThenSample{Order: samplers.Random{}, Gamma: 2}} {
		for v.Step = 1; v.Step <= 4; v.Step++ {
			o, err := c.Choose(v)
			require.NoError(t, err)
			switch {
			case v.Step == 4:
				require.Equal(t, 1.0, o.Power)
			case c == samplers.Temp{Alpha: 3}:
				require.Equal(t, 1+1/(3*(1-float64(v.Step)/4)), o.Power)
			default:
				require.Equal(t, 2.0, o.Power)
			}
		}
	}
}

// The paper's example: i = 2 3 6 5 1 4, j = 4 3 1 5 6 2, m = 2 of n = 4 gives 2 3 4 1.
func TestHybridMergesAsThePaper(t *testing.T) {
	h := samplers.Hybrid{Explore: fixed{2, 3, 6, 5, 1, 4}, Exploit: fixed{4, 3, 1, 5, 6, 2}}
	v := &samplers.View{Masked: []int{1, 2, 3, 4, 5, 6}, Step: 1, Steps: 2}
	require.Equal(t, []int{2, 3, 4, 1}, h.Rank(v, 4))
	v.Step = 2
	require.Equal(t, []int{4, 3, 1, 5}, h.Rank(v, 4))
}

type fixed []int

func (fixed) Needs(int, int) samplers.Need         { return samplers.Need{} }
func (f fixed) Rank(_ *samplers.View, k int) []int { return f[:k] }

func TestInfoGainTakesTheBestCandidate(t *testing.T) {
	v := &samplers.View{Tokens: []int32{9, 9, 9, 9}, Mask: 9, Masked: []int{0, 1, 2, 3}, Quota: 2,
		Step: 1, Steps: 2,
		LogP: []float64{-0.1, -0.2, -0.3, -0.4}, Token: []int32{5, 6, 7, 8},
		Entropy: []float64{0.1, 0.2, 0.3, 0.4}}
	for target := range 4 {
		var want []int
		v.LookAhead = func(candidates []samplers.Opening) ([]float64, []int, error) {
			require.Equal(t, []int{0, 1}, candidates[0].Positions)
			require.Greater(t, len(candidates), 2)
			left, masked := make([]float64, len(candidates)), make([]int, len(candidates))
			for i, c := range candidates {
				left[i], masked[i] = 20, 2
				for j, p := range c.Positions {
					require.Equal(t, int32(5+p), c.Tokens[j])
				}
			}
			best := target % len(candidates)
			left[best], want = 1, slices.Clone(candidates[best].Positions)
			return left, masked, nil
		}
		o, err := samplers.InfoGain{Temperature: 10}.Choose(v)
		require.NoError(t, err)
		require.Equal(t, want, o.Positions)
	}
}

func TestSchedulesSumToTheLength(t *testing.T) {
	for _, name := range []string{"uniform", "cosine", "arccos", "mage", "amused", "titok", "linear",
		"llada", "dllm", "rest", "pgm", "pgm-arccos"} {
		s, err := samplers.ParseSchedule(name)
		require.NoError(t, err)
		rapid.Check(t, func(t *rapid.T) {
			length := rapid.IntRange(1, 1500).Draw(t, "length")
			steps := rapid.IntRange(1, length).Draw(t, "steps")
			before := 0
			for n := 1; n <= steps; n++ {
				open := samplers.OpenCount(s, float64(n), steps, length)
				half := samplers.OpenCount(s, float64(n)-0.5, steps, length)
				require.Greater(t, open, before, "one a step at least")
				require.True(t, before <= half && half <= open, "%d %d %d", before, half, open)
				before = open
			}
			require.Equal(t, length, before)
		})
	}
	_, err := samplers.ParseSchedule("sudden")
	require.EqualError(t, err,
		`samplers: unknown schedule "sudden", want one of amused, arccos, cosine, dllm, dream, floor, late-arccos, linear, llada, mage, omnivoice, pgm, pgm-arccos, rest, titok, uniform`)
}

func TestScheduleValues(t *testing.T) {
	// 32 in 13 steps: get_num_transfer_tokens of dLLM opens 2, 2, 3, 2, 3, 2, ... (LLaDA's 3, 3, ...)
	for n, open := range []int{0, 2, 4, 7, 9, 12, 14, 17, 19, 22, 24, 27, 29, 32} {
		require.Equal(t, open, samplers.DLLM.At(float64(n), 13, 32), n)
	}
	require.Equal(t, []int{14, 84, 99, 113, 128}, // halves that float32 decides
		[]int{samplers.DLLM.At(1, 9, 128), samplers.DLLM.At(6, 9, 128), samplers.DLLM.At(7, 9, 128),
			samplers.DLLM.At(8, 9, 128), samplers.DLLM.At(9, 9, 128)})
	require.Equal(t, 5, samplers.Cosine.At(1, 8, 256)) // MaskGIT's and MAGE's 5 of 256
	require.Equal(t, 256-int(256*math.Cos(math.Pi/16)), samplers.MAGE.At(1, 8, 256))
	require.Equal(t, 255, samplers.MAGE.At(7.999, 8, 256))
	require.Equal(t, 256, samplers.MAGE.At(8, 8, 256))
	require.Equal(t, 128, samplers.MAGE.At(34, 51, 256))
	require.Equal(t, 129, samplers.ForAMUSEd.At(8, 12, 256)) // what torch computes, as the next two
	require.Equal(t, 232, samplers.Linear.At(11, 12, 252))
	require.Equal(t, 35, samplers.Linear.At(7, 12, 60))
	for steps, changed := range map[int]bool{12: false, 20: false, 39: true, 51: true, 64: false} {
		require.Equal(t, changed, samplers.CountsChanged(samplers.MAGE, steps), steps)
	}
	require.True(t, samplers.CountsChanged(samplers.Linear, 12))
	require.False(t, samplers.CountsChanged(samplers.Linear, 8))
	require.False(t, samplers.CountsChanged(samplers.ForAMUSEd, 12))
	require.Equal(t, []int{2, 4, 6, 8},
		[]int{samplers.Uniform.At(0.5, 8, 32), samplers.Uniform.At(1, 8, 32),
			samplers.Uniform.At(1.5, 8, 32), samplers.Uniform.At(2, 8, 32)})
	require.Equal(t, int(256*(1-math.Acos(0.25)/(math.Pi/2))), samplers.Arccos.At(8, 32, 256))
	require.Equal(t, 30, samplers.Arccos.At(30, 32, 31), "n at least")
	for n, open := range []int{0, 8, 16, 24, 31} { // 32 positions, of which the first is known
		require.Equal(t, open, samplers.ForPGM.At(float64(n), 4, 31), n)
	}
	for n, open := range map[int]int{1: 1, 2: 22, 3: 43, 20: 431, 31: 858, 32: 1024} {
		require.Equal(t, open, samplers.OpenCount(samplers.PGMArccos, float64(n), 32, 1024), n)
	}
	for n, open := range []int{0, 1, 3, 5, 8} { // a share of what is masked, and all that is left
		require.Equal(t, open, samplers.Dream.At(float64(n), 4, 8), n)
	}
}
