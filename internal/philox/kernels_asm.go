//go:build (amd64 || arm64) && !purego

package philox

import "unmask/internal/simd"

// fill fills words with the blocks from a counter on. The rest that no whole lot has is computed in
// a lot of its own, of which the first blocks are taken.
func (b *Blocks) fill(words [][4]uint32, counter uint32) {
	if b.isa == simd.Generic {
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
