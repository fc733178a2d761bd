package tokenizers

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// wordLen is the length in bytes of the first match of GPT-2's pattern in text, which is not
// empty; merges never cross matches. The pattern (openai/gpt-2, src/encoder.py) is
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// and its matches cover any text.
func wordLen(text string) int {
	if text[0] == '\'' {
		for _, ending := range [...]string{"s", "t", "re", "ve", "m", "ll", "d"} {
			if strings.HasPrefix(text[1:], ending) {
				return 1 + len(ending)
			}
		}
	}
	start := 0 // one space may lead a run of any other class
	if text[0] == ' ' {
		start = 1
	}
	first, size := utf8.DecodeRuneInString(text[start:])
	if size > 0 && classOf(first) != space { // size 0: text is one space
		run, n := classOf(first), start+size
		for n < len(text) {
			r, size := utf8.DecodeRuneInString(text[n:])
			if classOf(r) != run {
				break
			}
			n += size
		}
		return n
	}
	n, last := 0, 0 // end of the white space, and the size of its last rune
	for n < len(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		if classOf(r) != space {
			if n > last {
				n -= last // the last one may lead the next word
			}
			break
		}
		n, last = n+size, size
	}
	return n
}

type class int

const (
	letter class = iota
	number
	space
	other
)

func classOf(r rune) class {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}
