package samplers

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Steps equal those of a PyTorch program written from the paper (internal/parity/dplm.py), for the
// same noise.
func TestDPLMAgainstPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/dplm.json")
	require.NoError(t, err)
	var cases []struct {
		Step, Steps   int
		Mask          int32
		Tokens, After []int32
		Logits        [][]float32
		Uniform       [][]float64
		Again         []float64
	}
	require.NoError(t, json.Unmarshal(data, &cases))
	resampled := 0
	for _, c := range cases {
		places := make([]dplmPlace, len(c.Tokens))
		for i, logits := range c.Logits {
			gumbel := func(token int) float64 { return Gumbel(c.Uniform[i][token]) }
			places[i] = dplmDraw(append(logits, float32(math.Inf(-1))), gumbel, 0.95, c.Again[i])
		}
		before := slices.Clone(places)
		DPLM{}.resample(places)
		for i := range places {
			if places[i].token != before[i].token {
				resampled++
			}
		}
		masked := dplmLowest(places, DPLM{}.hidden(len(places), c.Step, c.Steps))
		got := slices.Clone(c.Tokens)
		for i := range got {
			switch {
			case masked[i]:
				got[i] = c.Mask
			case got[i] == c.Mask:
				got[i] = places[i].token
			}
		}
		require.Equal(t, c.After, got, "step %d of %d", c.Step, c.Steps)
	}
	require.Greater(t, resampled, 3)
}
