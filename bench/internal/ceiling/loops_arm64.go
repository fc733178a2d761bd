//go:build arm64 && !purego

package ceiling

import "unmask/internal/simd"

// loops returns the loop with the most operations a second that this level has for each type.
// Operations are multiplications and additions, both counted, of one round of a loop.
func loops(l simd.Level) (f32, bf16, int8s Loop) {
	f32 = plain
	int8s = plain
	if l.ISA == simd.NEON {
		f32 = Loop{"FMLA v.4s", 24 * 4 * 2, fmaNEON}
		int8s = Loop{"SMULL+SMLAL+SADALP", 16 * 16 * 2, pairsNEON}
	}
	if l.Dot {
		int8s = Loop{"SDOT v.4s", 24 * 16 * 2, dotNEON}
	}
	return f32, f32, int8s
}

// readMemory reads all of x with the widest loads that the loop has, and does nothing with it.
func readMemory(l simd.Level, x []float32) {
	if n := len(x) / 64; n > 0 && l.ISA != simd.Generic {
		readNEON(&x[0], n)
		return
	}
	readPlain(x)
}
