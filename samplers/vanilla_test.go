package samplers_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/samplers"
)

// The race that skips outcomes that cannot win gives, bit for bit, the argmax over all outcomes.
func TestVanillaSkipsNothingThatWins(t *testing.T) {
	opened := 0
	rapid.Check(t, func(t *rapid.T) {
		classes := rapid.OneOf(rapid.IntRange(1, 400), rapid.IntRange(1, 4000)).Draw(t, "classes")
		steps := rapid.IntRange(2, 200).Draw(t, "steps")
		v := &samplers.View{Outcomes: classes, Masked: []int{rapid.IntRange(0, 5000).Draw(t, "position")},
			Steps: steps,
			Step: rapid.IntRange(1, steps-1).Draw(t,
				"step"), Rand: samplers.Rand{Seed: rapid.Uint64().Draw(t, "seed")}}
		scale, sum := rapid.Float64Range(0, 20).Draw(t, "scale"), 0.0
		// float32 is coarse far from 0
		offset := rapid.SampledFrom([]float64{0, 80, -1e4}).Draw(t, "offset")
		logits := make([]float32, classes)
		for x := range logits {
			logits[x] = float32(scale * math.Sin(float64(x*x+x)))
			logits[x] += float32(offset)
			sum += math.Exp(float64(logits[x]) - offset)
		}
		v.LogSum = []float64{math.Log(sum) + offset}
		v.Visit = func(_ []int, visit func(i int, logits []float32)) error {
			visit(0,
				logits)
			return nil
		}
		got, err := samplers.Vanilla{Bits: 32}.Choose(v)
		require.NoError(t, err)

		word := func(x int) float32 {
			return float32(v.Rand.Words(v.Masked[0], samplers.ForToken, x/4)[x%4]>>8) / (1 << 24)
		}
		exponential := func(u float32) float32 { return 1e-10 - float32(math.Log(float64(u+1e-10))) }
		move := func(step int) float32 {
			return float32(1-1e-3) * float32(1-float64(step-1)*(1-1e-5)/float64(steps-1))
		}
		from, to := move(v.Step), move(v.Step+1)
		best, winner := to/exponential(word(classes)), -1
		for x, l := range logits {
			p := float32(math.Exp(float64(l - float32(v.LogSum[0]))))
			if r := p * (from - to) / exponential(word(x)); r > best {
				best, winner = r, x
			}
		}
		if winner < 0 {
			require.Empty(t, got.Positions)
			return
		}
		opened++
		require.Equal(t, []int32{int32(winner)}, got.Tokens)
	})
	require.Positive(t, opened)
}
