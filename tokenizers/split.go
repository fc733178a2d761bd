package tokenizers

import (
	"strings"
	"unicode/utf8"
)

// words is a pattern whose matches are adjacent and cover any text, matched by hand, because Go's
// regexp has neither look-ahead nor the classes of Unicode 16.
type words func(text string) int // bytes of the first match in text, which is not empty

// gpt2Words returns GPT-2's pattern (openai/gpt-2, src/encoder.py):
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2Words(text string) int {
	table := classes()
	if n := ending(text); n > 0 {
		return n
	}
	start := 0 // one space may precede a run of any other class
	if text[0] == ' ' {
		start = 1
	}
	first, size := decode(text[start:])
	if c := class(table[first] &^ wordBit); size > 0 && c != space { // size 0: text is one space
		return start + size + runOf(table, text[start+size:], c)
	}
	return spaces(table, text)
}

// ending returns the length of 's|'t|'re|'ve|'m|'ll|'d at the start of text, or 0.
func ending(text string) int {
	if text[0] == '\'' {
		for _, ending := range [...]string{"s", "t", "re", "ve", "m", "ll", "d"} {
			if strings.HasPrefix(text[1:], ending) {
				return 1 + len(ending)
			}
		}
	}
	return 0
}

// clipWords finds CLIP's pattern, which leaves white space out.
func clipWords(text string) (start, end int) {
	table := classes()
	start = runOf(table, text, space)
	if start == len(text) {
		return -1, -1
	}
	if n := ending(text[start:]); n > 0 {
		return start, start + n
	}
	first, size := decode(text[start:])
	if c := classOf(first); c != number {
		size += runOf(table, text[start+size:], c)
	}
	return start, start + size
}

// chatWords returns the pattern of cl100k and its descendants: Llama 3 (3 digits), Qwen and Ling (1
// digit). contraction is 's, 't, 're, 've, 'm, 'll or 'd in upper or lower case.
//
//	contraction|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|
//	\s*[\r\n]+|\s+(?!\S)|\s+
func chatWords(digits int) words {
	return func(text string) int {
		table := classes()
		if n := contraction(text); n > 0 {
			return n
		}
		first, size := decode(text)
		c := class(table[first] &^ wordBit)
		switch {
		case c == letter:
			return size + runOf(table, text[size:], letter)
		case c == number:
			n := size
			for i := 1; i < digits && n < len(text); i++ {
				r, size := decode(text[n:])
				if class(table[r]&^wordBit) != number {
					break
				}
				n += size
			}
			return n
		case first != '\r' && first != '\n':
			if n := runOf(table, text[size:], letter); n > 0 {
				return size + n
			}
		}
		start := 0
		if first == ' ' {
			start = 1
		}
		if n := runOf(table, text[start:], other); n > 0 {
			n += start
			for n < len(text) && (text[n] == '\r' || text[n] == '\n') {
				n++
			}
			return n
		}
		return lines(table, text)
	}
}

// contraction returns the length of an apostrophe with an English ending in any case, or 0. ſ
// (U+017F) counts as an s.
func contraction(text string) int {
	if text[0] != '\'' || len(text) < 2 {
		return 0
	}
	switch text[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if len(text) > 2 && text[2]|0x20 == 'e' {
			return 3
		}
	case 'l':
		if len(text) > 2 && text[2]|0x20 == 'l' {
			return 3
		}
	}
	if strings.HasPrefix(text[1:], "ſ") {
		return 1 + len("ſ")
	}
	return 0
}

// lines returns the length of \s*[\r\n]+|\s+(?!\S)|\s+ at the start of text, which is white space.
func lines(table []uint8, text string) int {
	n := runOf(table, text, space)
	if at := strings.LastIndexAny(text[:n], "\r\n"); at >= 0 {
		return at + 1
	}
	return beforeWord(text, n)
}

// spaces returns the length of \s+(?!\S)|\s+ at the start of text, which is white space.
func spaces(table []uint8, text string) int { return beforeWord(text, runOf(table, text, space)) }

// beforeWord leaves the last of n bytes of white space to the word after them, unless it is the
// only one.
func beforeWord(text string, n int) int {
	if n == len(text) {
		return n
	}
	if _, last := utf8.DecodeLastRuneInString(text[:n]); last < n {
		return n - last
	}
	return n
}

// runOf returns the length of text before the first rune that is not of class c.
func runOf(table []uint8, text string, c class) int {
	n := 0
	for n < len(text) {
		r, size := decode(text[n:])
		if class(table[r]&^wordBit) != c {
			break
		}
		n += size
	}
	return n
}

// decode is utf8.DecodeRuneInString with a short way for ASCII.
func decode(text string) (rune, int) {
	if len(text) > 0 && text[0] < utf8.RuneSelf {
		return rune(text[0]), 1
	}
	return utf8.DecodeRuneInString(text)
}
