//go:build arm64 && !purego

package philox

// lot is the number of blocks that the assembly makes at a time.
const lot = 8

func (b *Blocks) vectors(words *[4]uint32, counter uint32, n int) {
	fillNEON(&words[0], &b.shared.x2, counter, n)
}
