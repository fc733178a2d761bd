//go:build arm64 && !purego

package ceiling

import "unmask/internal/simd"

func float32Loop(l simd.Level) Loop {
	if l.ISA == simd.NEON {
		return Loop{"FMLA v.4s", 24 * 4 * 2, fmaNEON}
	}
	return plain
}

func bfloat16Loop(l simd.Level) Loop { return float32Loop(l) }

func int8Loop(l simd.Level) Loop {
	switch {
	case l.Dot:
		return Loop{"SDOT v.4s", 24 * 16 * 2, dotNEON}
	case l.ISA == simd.NEON:
		return Loop{"SMULL+SMLAL+SADALP", 16 * 16 * 2, pairsNEON}
	}
	return plain
}

func read(l simd.Level, x []float32) {
	if n := len(x) / 64; n > 0 && l.ISA != simd.Generic {
		readNEON(&x[0], n)
		return
	}
	readPlain(x)
}
