package model_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/model"
)

// CheckFinite refuses a list exactly if a number of it has no finite float32, wherever it stands.
func TestCheckFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Float64Range(-3e38, 3e38), 1, 20).Draw(t, "numbers")
		require.NoError(t, model.CheckFinite("number", numbers))
		place := rapid.IntRange(0, len(numbers)-1).Draw(t, "place")
		numbers[place] = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e39,
			-1e300}).Draw(t, "bad")
		require.ErrorContains(t, model.CheckFinite("number", numbers), "want finite numbers")
	})
}
