package topk

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/internal/simd/screen"
)

// Screening long rows by a floor changes nothing, not even which of equal elements is kept.
func TestTheFloorChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const k = 64
		x := make([]float32, rapid.IntRange(screen.Size, 4*screen.Size).Draw(t, "n"))
		levels := rapid.Float64Range(1, 1e6).Draw(t, "levels") // few: many are equal
		for i := range x {
			x[i] = float32(math.Round(levels*math.Sin(float64(i*i+7*i))) / levels)
		}
		above := 0
		for _, v := range x {
			if v > lowerBound(x, k) {
				above++
			}
		}
		require.GreaterOrEqual(t, above, k)
		require.Equal(t, insertLargest(nil, x, k, float32(math.Inf(-1))), Largest(nil, x, k))
	})
}
