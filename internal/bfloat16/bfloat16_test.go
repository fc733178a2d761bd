package bfloat16

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRound(t *testing.T) {
	inf := float32(math.Inf(1))
	for x, want := range map[float32]float32{
		0: 0, 1: 1, -2.5: -2.5, inf: inf, -inf: -inf,
		1.00390625: 1, 1.01171875: 1.015625, // halfway: to even, down and up
		math.MaxFloat32: inf,
	} {
		require.Equal(t, want, Float32(Round(x)), "%v", x)
	}
	quiet := Float32(Round(math.Float32frombits(0x7f800001))) // its bits are all in the lower half
	require.True(t, quiet != quiet)
	for h := range 1 << 16 {
		if x := Float32(uint16(h)); x == x {
			require.Equal(t, uint16(h), Round(x))
		}
	}
}
