//go:build amd64 && !purego

package philox

import "unmask/internal/simd"

// lot is the number of blocks that the assembly makes at a time, a multiple of each width's.
const lot = 32

// vectors fills n blocks from a counter on, n a multiple of lot.
func (b *Blocks) vectors(words *[4]uint32, counter uint32, n int) {
	if b.isa == simd.AVX512 {
		fillAVX512(&words[0], &b.shared.x2, counter, n)
	} else {
		fillAVX2(&words[0], &b.shared.x2, counter, n)
	}
}
