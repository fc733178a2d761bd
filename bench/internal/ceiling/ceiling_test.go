package ceiling_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/bench/internal/ceiling"
	"unmask/internal/simd"
)

// A loop's time grows with its rounds, so nothing was optimised away, and no loop is slower
// than plain Go's.
func TestLoops(t *testing.T) {
	rate := func(l ceiling.Loop, rounds int) float64 {
		best := 0.0
		for range 5 {
			began := time.Now()
			l.Run(rounds)
			best = max(best, l.Ops*float64(rounds)/time.Since(began).Seconds())
		}
		return best
	}
	plain := rate(ceiling.Float32(simd.Level{}), 100_000)
	for _, level := range simd.Available() {
		for _, l := range []ceiling.Loop{ceiling.Float32(level), ceiling.BFloat16(level),
			ceiling.Int8(level)} {
			got := rate(l, 100_000)
			t.Logf("%-22v %-20s %7.1f GFLOP/s", level, l.Name, got/1e9)
			require.Greater(t, got, plain/2)
			require.Less(t, got, 2e13)
		}
	}
}

func TestReadTakesLongerForMore(t *testing.T) {
	for _, level := range simd.Available() {
		took := func(x []float32) time.Duration {
			least := time.Hour
			for range 5 {
				began := time.Now()
				ceiling.Read(level, x)
				least = min(least, time.Since(began))
			}
			return least
		}
		x := make([]float32, 1<<22)
		require.Greater(t, took(x), took(x[:1<<12]), level)
	}
	ceiling.Read(simd.Level{}, nil)
}
