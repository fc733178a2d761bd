package samplers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/samplers"
)

func covers(t *testing.T, seen []int, stamp int, shape ...int) {
	order := samplers.HaltonOrder(shape...)
	n := 1
	for _, d := range shape {
		n *= d
	}
	if len(order) != n {
		t.Fatalf("%v: %d positions", shape, len(order))
	}
	for _, p := range order {
		if p < 0 || int(p) >= n || seen[p] == stamp {
			t.Fatalf("%v: position %d twice or outside", shape, p)
		}
		seen[p] = stamp
	}
}

func TestHaltonCoversEverySideAndLengthOnce(t *testing.T) {
	seen := make([]int, 128*128)
	for side := 2; side <= 128; side++ {
		covers(t, seen, side, side, side)
	}
	for length := 1; length <= 8192; length++ {
		covers(t, seen, 1000+length, length)
	}
	covers(t, seen, -1, 3, 40)
}

func TestHaltonBegins(t *testing.T) {
	square := samplers.HaltonOrder(16, 16)
	require.Equal(t, []int32{8*16 + 5, 4*16 + 10, 12*16 + 1}, square[:3])
	require.Equal(t, []int32{4, 2, 6, 1, 5, 3, 7, 0}, samplers.HaltonOrder(8))
}
