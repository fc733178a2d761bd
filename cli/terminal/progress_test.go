package terminal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
