package cpu

import (
	"fmt"
	"testing"

	"unmask/backend"
	"unmask/backend/backendtest"
	"unmask/internal/simd"
)

// The suite passes on every instruction set of this machine on more threads than processors, and
// with the first on one thread too.
func TestDevice(t *testing.T) {
	for i, level := range simd.Available() {
		for _, threads := range []int{1, 3}[min(i, 1):] {
			t.Run(fmt.Sprintf("%v x%d", level, threads), func(t *testing.T) {
				t.Parallel()
				open := func() backend.Backend { return New(Options{Threads: threads, ISA: level.String()}) }
				backendtest.Run(t, open)
			})
		}
	}
}

// No kernel of a step allocates.
func TestAllocations(t *testing.T) {
	for _, level := range simd.Available() {
		for _, threads := range []int{1, 3} {
			open := func() backend.Backend { return New(Options{Threads: threads, ISA: level.String()}) }
			backendtest.Allocations(t, open)
		}
	}
}
