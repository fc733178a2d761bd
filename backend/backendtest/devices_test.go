package backendtest

import (
	"fmt"
	"testing"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/backend/plain"
	"unmask/internal/simd"
)

// The reference passes the suite itself: its requirements, such as for rows without a distribution,
// must hold here too.
func TestPlain(t *testing.T) { testDevice(t, plain.New) }

// onCPU opens the processor's device.
func onCPU(level simd.Level, threads int) func() backend.Backend {
	return func() backend.Backend {
		return cpu.New(cpu.Options{Threads: threads, ISA: level.String()})
	}
}

// The suite passes on every instruction set of this machine on more threads than processors, and
// with the first on one thread too.
func TestCPU(t *testing.T) {
	for i, level := range simd.Available() {
		for _, threads := range []int{1, 3}[min(i, 1):] {
			t.Run(fmt.Sprintf("%v x%d", level, threads), func(t *testing.T) {
				t.Parallel()
				testDevice(t, onCPU(level, threads))
			})
		}
	}
}

// No kernel of a step allocates.
func TestAllocationsOnCPU(t *testing.T) {
	for _, level := range simd.Available() {
		for _, threads := range []int{1, 3} {
			testAllocations(t, onCPU(level, threads))
		}
	}
}
