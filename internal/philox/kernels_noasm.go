//go:build (!amd64 && !arm64) || purego

package philox

func (b *Blocks) fill(words [][4]uint32, counter uint32) { b.shared.fill(words, counter) }
