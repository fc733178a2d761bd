package ceiling_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/bench/internal/ceiling"
	"unmask/internal/processor"
	"unmask/internal/simd"
)

// A loop's time grows with its rounds, so nothing was optimised away, and no loop is slower
// than plain Go's. The time is the processor's: the machine may do anything else meanwhile.
func TestLoops(t *testing.T) {
	rate := func(l ceiling.Loop, rounds int) float64 {
		began, took, n := processor.Seconds(), 0.0, 0
		for ; took < 1e-3; took = processor.Seconds() - began { // some systems count it roughly
			l.Run(rounds)
			n += rounds
		}
		return l.Ops * float64(n) / took
	}
	for _, level := range simd.Available() {
		for _, l := range []ceiling.Loop{ceiling.LoopFor(level, backend.F32),
			ceiling.LoopFor(level, backend.BF16), ceiling.LoopFor(level, backend.Int8)} {
			plain, got := 0.0, 0.0
			for n := 0; n < 5 || n < 50 && got <= plain/2; n++ {
				plain = max(plain, rate(ceiling.LoopFor(simd.Level{}, backend.F32), 100_000))
				got = max(got, rate(l, 100_000))
			}
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
				ceiling.ReadMemory(level, x)
				least = min(least, time.Since(began))
			}
			return least
		}
		x := make([]float32, 1<<22)
		require.Greater(t, took(x), took(x[:1<<12]), level)
	}
	ceiling.ReadMemory(simd.Level{}, nil)
}
