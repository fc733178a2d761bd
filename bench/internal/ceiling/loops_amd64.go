//go:build amd64 && !purego

package ceiling

import "unmask/internal/simd"

// loops returns the loop with the most operations a second that this level has for each type.
// Operations are multiplications and additions, both counted, of one round of a loop.
func loops(l simd.Level) (f32, bf16, int8s Loop) {
	f32 = plain
	int8s = plain
	switch l.ISA {
	case simd.AVX512:
		f32 = Loop{"VFMADD231PS zmm", 24 * 16 * 2, fmaZMM}
	case simd.AVX2:
		f32 = Loop{"VFMADD231PS ymm", 12 * 8 * 2, fmaYMM}
	}

	// Without instructions for it, bfloat16 is computed as float32, so that is its ceiling too.
	bf16 = f32
	if l.ISA == simd.AVX512 && l.BF16 {
		bf16 = Loop{"VDPBF16PS zmm", 24 * 32 * 2, dotBF16}
	}

	switch {
	case l.ISA == simd.AVX512 && l.VNNI:
		int8s = Loop{"VPDPBUSD zmm", 24 * 64 * 2, dotInt8}
	case l.ISA == simd.AVX2 && l.VNNI:
		int8s = Loop{"VPDPBUSD ymm", 12 * 32 * 2, dotShort}
	case l.ISA != simd.Generic:
		int8s = Loop{"VPMADDWD+VPADDD ymm", 6 * 16 * 2, maddInt16}
	}
	return f32, bf16, int8s
}

// readMemory reads all of x with the widest loads that the loop has, and does nothing with it.
func readMemory(l simd.Level, x []float32) {
	if n := len(x) / 64; n > 0 && l.ISA != simd.Generic {
		readYMM(&x[0], n)
		return
	}
	readPlain(x)
}
