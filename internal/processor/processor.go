// Package processor names the processor, and reports the processor time of this process, which says
// more than a clock on a machine that others use.
package processor

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"strings"

	"unmask/internal/simd"
)

// Name returns what the system calls the processor, its cores and the instruction set that kernels
// use, such as "AMD EPYC, 2 cores, avx2". Linux and Windows know a name; others give the
// architecture's.
func Name() string {
	name := os.Getenv("PROCESSOR_IDENTIFIER") // set by Windows
	list, _ := os.ReadFile("/proc/cpuinfo")   // there on Linux
	if _, after, ok := strings.Cut(string(list), "model name"); ok {
		line, _, _ := strings.Cut(after, "\n")
		name = strings.Trim(line, ": \t")
	}
	name = cmp.Or(name, runtime.GOARCH)
	level, err := simd.Select("")
	if err != nil {
		return fmt.Sprintf("%s, %d cores", name, runtime.NumCPU())
	}
	return fmt.Sprintf("%s, %d cores, %v", name, runtime.NumCPU(), level)
}
