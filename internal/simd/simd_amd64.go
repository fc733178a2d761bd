//go:build amd64 && !purego

package simd

import "golang.org/x/sys/cpu"

// detect returns the best level, and whether the processor has AVX-VNNI beside AVX2.
func detect() (best Level, hasAVXVNNI bool) {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA:
		return Level{}, false
	case x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL:
		return Level{ISA: AVX512, BF16: x.HasAVX512BF16, VNNI: x.HasAVX512VNNI}, x.HasAVXVNNI
	}
	return Level{ISA: AVX2}, x.HasAVXVNNI
}
