//go:build arm64 && !purego

package simd

import "golang.org/x/sys/cpu"

func detect() Level { return Level{ISA: NEON, Dot: cpu.ARM64.HasASIMDDP} }
