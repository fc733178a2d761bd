package tokenizers

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a class of characters in the patterns of pre-tokenizers. The tables are of Unicode 16,
// as in the patterns of Hugging Face's library; Go's are of Unicode 15.
type class uint8

const (
	other  class = iota
	letter       // \p{L}
	number       // \p{N}
	space        // \s
)

const wordBit = 1 << 7 // \w

// classes holds class and wordBit of every code point: 1.1 MB, computed once.
var classes = sync.OnceValue(func() []uint8 {
	t := make([]uint8, utf8.MaxRune+1)
	fill := func(ranges [][2]rune, bits uint8) {
		for _, r := range ranges {
			for c := r[0]; c <= r[1]; c++ {
				t[c] |= bits
			}
		}
	}
	fill(letters, uint8(letter)|wordBit)
	fill(numbers, uint8(number))
	fill(wordOthers, wordBit)
	for _, r := range unicode.White_Space.R16 {
		for c := r.Lo; c <= r.Hi; c += r.Stride {
			t[c] |= uint8(space)
		}
	}
	return t
})

func classOf(r rune) class { return class(classes()[r] &^ wordBit) }

// isWord reports whether r is a word character, \w of Unicode.
func isWord(r rune) bool { return classes()[r]&wordBit != 0 }

// isNumeric reports whether r is a number in the tables of the Digits pre-tokenizer.
func isNumeric(r rune) bool {
	if classOf(r) == number {
		return true
	}
	return inRanges(numerics, r)
}

// inRanges searches sorted ranges.
func inRanges(ranges [][2]rune, r rune) bool {
	lo, hi := 0, len(ranges)
	for lo < hi {
		mid := (lo + hi) / 2
		switch {
		case r < ranges[mid][0]:
			hi = mid
		case r > ranges[mid][1]:
			lo = mid + 1
		default:
			return true
		}
	}
	return false
}
