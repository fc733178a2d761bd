//go:build arm64 && !purego

package philox

import "unmask/internal/simd"

// lot is the number of blocks that the assembly makes at a time.
const lot = 8

func (b *Blocks) fill(words [][4]uint32, counter uint32) {
	if b.isa != simd.NEON {
		b.shared.fill(words, counter)
		return
	}
	whole := len(words) / lot * lot
	if whole > 0 {
		fillNEON(&words[0][0], &b.shared.x2, counter, whole)
	}
	if whole < len(words) {
		var last [lot][4]uint32
		fillNEON(&last[0][0], &b.shared.x2, counter+uint32(whole)<<8, lot)
		copy(words[whole:], last[:])
	}
}
