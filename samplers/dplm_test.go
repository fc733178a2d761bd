package samplers

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Steps and the tokens of second passes equal those of a PyTorch program written from the paper
// (testkit/parity/dplm.py), for the same noise.
func TestDPLMAgainstPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/dplm.json")
	require.NoError(t, err)
	var cases []struct {
		Step, Steps           int
		Mask                  int32
		Tokens, Second, After []int32
		Logits                [2][][]float32
		Uniform               [2][][]float64
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	seconds := 0
	for _, c := range cases {
		draw := func(pass, i int, keep float64) dplmDraw {
			logits := append(slices.Clone(c.Logits[pass][i]), float32(math.Inf(-1)))
			return newDPLMDraw(logits, keep,
				func(token int) float64 { return Gumbel(c.Uniform[pass][i][token]) })
		}
		v := &View{Tokens: c.Tokens, Mask: c.Mask, Step: c.Step, Steps: c.Steps}
		draws, second := make([]dplmDraw, len(c.Tokens)), []int32{}
		for i, token := range c.Tokens {
			draws[i] = draw(0, i, 1)
			second = append(second, draws[i].token)
			if token == c.Mask {
				v.Masked = append(v.Masked, i)
			} else {
				v.Open = append(v.Open, i)
			}
		}
		again := WithDefaults(DPLM{}).frequentDraws(draws)
		for _, i := range again {
			second[i] = c.Mask
			draws[i] = draw(1, i, 0.95)
		}
		if len(again) > 0 {
			require.Equal(t, c.Second, second)
			seconds++
		} else {
			require.Empty(t, c.Second)
		}
		o := DPLM{}.opening(v, slices.Sorted(slices.Values(slices.Concat(v.Masked, v.Open))), draws)
		got := slices.Clone(c.Tokens)
		for j, at := range o.Positions {
			got[at] = o.Tokens[j]
		}
		for _, at := range o.Close {
			got[at] = c.Mask
		}
		require.Equal(t, c.After, got, "step %d of %d", c.Step, c.Steps)
	}
	require.Equal(t, 4, seconds)
}
