//go:build amd64 && !purego

package philox

import "unmask/internal/simd"

// lot is the number of blocks that the assembly makes at a time, a multiple of each width's.
const lot = 32

func (b *Blocks) fill(words [][4]uint32, counter uint32) {
	if b.isa != simd.AVX2 && b.isa != simd.AVX512 {
		b.shared.fill(words, counter)
		return
	}
	whole := len(words) / lot * lot
	if whole > 0 {
		b.vectors(&words[0], counter, whole)
	}
	if whole < len(words) {
		var last [lot][4]uint32
		b.vectors(&last[0], counter+uint32(whole)<<8, lot)
		copy(words[whole:], last[:])
	}
}

func (b *Blocks) vectors(words *[4]uint32, counter uint32, n int) {
	if b.isa == simd.AVX512 {
		fillAVX512(&words[0], &b.shared.x2, counter, n)
	} else {
		fillAVX2(&words[0], &b.shared.x2, counter, n)
	}
}
