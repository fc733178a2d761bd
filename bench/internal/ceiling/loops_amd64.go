//go:build amd64 && !purego

package ceiling

import "unmask/internal/simd"

func float32Loop(l simd.Level) Loop {
	switch l.ISA {
	case simd.AVX512:
		return Loop{"VFMADD231PS zmm", 24 * 16 * 2, fmaZMM}
	case simd.AVX2:
		return Loop{"VFMADD231PS ymm", 12 * 8 * 2, fmaYMM}
	}
	return plain
}

func bfloat16Loop(l simd.Level) Loop {
	if l.ISA == simd.AVX512 && l.BF16 {
		return Loop{"VDPBF16PS zmm", 24 * 32 * 2, dotBF16}
	}
	return float32Loop(l)
}

func int8Loop(l simd.Level) Loop {
	switch {
	case l.ISA == simd.AVX512 && l.VNNI:
		return Loop{"VPDPBUSD zmm", 24 * 64 * 2, dotInt8}
	case l.ISA == simd.AVX2 && l.VNNI:
		return Loop{"VPDPBUSD ymm", 12 * 32 * 2, dotShort}
	case l.ISA != simd.Generic:
		return Loop{"VPMADDWD+VPADDD ymm", 6 * 16 * 2, maddInt16}
	}
	return plain
}

func read(l simd.Level, x []float32) {
	if n := len(x) / 64; n > 0 && l.ISA != simd.Generic {
		readYMM(&x[0], n)
		return
	}
	readPlain(x)
}
