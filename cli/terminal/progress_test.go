package terminal

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLinesOfProgress(t *testing.T) {
	for want, x := range map[string][3]int{
		"steps: 0 of 32":                {0, 32, 3},
		"steps: 8 of 32, 12s left":      {8, 32, 4},
		"steps: 1 of 3601, 1h0m0s left": {1, 3601, 1},
		"steps: 32 of 32, 0s left":      {32, 32, 9},
		"steps: 7":                      {7, -1, 9},
	} {
		require.Equal(t, want, progressLine("steps", int64(x[0]), int64(x[1]),
			time.Duration(x[2])*time.Second))
	}
}

// A time left is never negative, whatever a hub says of a size.
func TestTimeLeftOfHugeSizes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		done := rapid.Int64Min(0).Draw(t, "done")
		total := rapid.Int64().Draw(t, "total")
		took := time.Duration(rapid.Int64Min(0).Draw(t, "took"))
		require.NotContains(t, timeLeft(done, total, took), "-")
	})
	require.Empty(t, timeLeft(1, math.MaxInt64, time.Minute))
}

// Where there is no bar, a line comes only when something was done since the last one.
func TestLinesOfProgressMove(t *testing.T) {
	p := &Progress{label: "steps", total: 9}
	for _, done := range []int64{0, 1, 1} {
		p.Set(done)
	}
	require.Equal(t, int64(1), p.loggedDone)
	logged := p.updatedAt
	p.updatedAt = time.Time{}
	p.Set(1)
	require.Zero(t, p.updatedAt, "nothing moved")
	p.Set(2)
	require.True(t, p.updatedAt.After(logged))
}
