package processor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecondsGrowWithWork(t *testing.T) {
	before, x := Seconds(), 1.0
	for i := 0; Seconds()-before < 0.01; i++ {
		require.Less(t, i, 1_000_000, "no processor time was counted")
		for range 10_000 {
			x = x*1.0000001 + 1e-9
		}
	}
	require.Positive(t, x)
}

func TestNameHasCoresAndKernels(t *testing.T) {
	require.Regexp(t, `^\S.*, \d+ cores, \S+$`, Name())
}
