//go:build arm64 && !purego

package simd

import "golang.org/x/sys/cpu"

func detect() (best Level, hasAVXVNNI bool) {
	return Level{ISA: NEON, Dot: cpu.ARM64.HasASIMDDP}, false
}
