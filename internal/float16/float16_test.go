package float16

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFloat32(t *testing.T) {
	for h := range 1 << 16 {
		exp, fraction := h>>10&31, float64(h&1023)
		want := math.Ldexp(1024+fraction, exp-25)
		switch {
		case exp == 0:
			want = math.Ldexp(fraction, -24)
		case exp == 31:
			want = math.Inf(1)
		}
		got := Float32(uint16(h))
		if exp == 31 && fraction != 0 {
			require.True(t, got != got, "%#x", h)
			r := Float32(Round(got))
			require.True(t, r != r, "%#x", h)
			continue
		}
		if h&0x8000 != 0 {
			want = -want
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(float64(got)), "%#x", h)
		require.Equal(t, uint16(h), Round(got), "%#x", h)
	}
}

// TestRound: halfway between two halves goes to the even one, a little more or less to the nearer.
func TestRound(t *testing.T) {
	for h := range uint16(0x7bff) {
		low, high := Float32(h), Float32(h+1)
		middle := (low + high) / 2
		require.Equal(t, h+h&1, Round(middle), "%#x", h)
		require.Equal(t, h, Round(math.Nextafter32(middle, 0)), "%#x", h)
		require.Equal(t, h+1, Round(math.Nextafter32(middle, 1e9)), "%#x", h)
		require.Equal(t, h+h&1|0x8000, Round(-middle), "%#x", h)
	}
	require.Equal(t, uint16(0x7bff), Round(math.Nextafter32(65520, 0)))
	require.Equal(t, uint16(0x7c00), Round(65520))
	require.Equal(t, uint16(0xfc00), Round(float32(math.Inf(-1))))
}
