package tokenizers

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Letters by case, for the patterns of Tekken (Mistral, Nemotron) and o200k.
const (
	upper  uint8           = 1 << iota // \p{Lu}, \p{Lt}
	lower                              // \p{Ll}
	common = upper | lower             // \p{Lm}, \p{Lo}, \p{M}: in both classes of the patterns
)

// cases holds upper, lower or common of every code point, 0 for others.
var cases = sync.OnceValue(func() []uint8 {
	t := make([]uint8, utf8.MaxRune+1)
	fill := func(bits uint8, tables ...*unicode.RangeTable) {
		for _, table := range tables {
			for _, r := range table.R16 {
				for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
					t[c] = bits
				}
			}
			for _, r := range table.R32 {
				for c := rune(r.Lo); c <= rune(r.Hi); c += rune(r.Stride) {
					t[c] = bits
				}
			}
		}
	}
	fill(upper, unicode.Lu, unicode.Lt)
	fill(lower, unicode.Ll)
	fill(common, unicode.Lm, unicode.Lo, unicode.M)
	for bits, list := range since15 {
		for _, r := range list {
			for c := r[0]; c <= r[1]; c++ {
				t[c] = bits
			}
		}
	}
	return t
})

// since15 are the code points that Hugging Face's tokenizers 0.23.3 knows (Unicode 16) and Go's
// tables do not; testdata/cased.py printed them.
var since15 = map[uint8][][2]rune{
	upper: {{0x1c89, 0x1c89}, {0xa7cb, 0xa7cc}, {0xa7da, 0xa7da}, {0xa7dc, 0xa7dc},
		{0x10d50, 0x10d65}},
	lower: {{0x1c8a, 0x1c8a}, {0xa7cd, 0xa7cd}, {0xa7db, 0xa7db}, {0x10d70, 0x10d85}},
	common: {{0x897, 0x897}, {0x105c0, 0x105f3}, {0x10d4a, 0x10d4f}, {0x10d69, 0x10d6d},
		{0x10d6f, 0x10d6f}, {0x10ec2, 0x10ec4}, {0x10efc, 0x10efc}, {0x11380, 0x11389},
		{0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x113b5}, {0x113b7, 0x113c0},
		{0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca}, {0x113cc, 0x113d3},
		{0x113e1, 0x113e2}, {0x11bc0, 0x11be0}, {0x11f5a, 0x11f5a}, {0x13460, 0x143fa},
		{0x16100, 0x1612f}, {0x16d40, 0x16d6c}, {0x18cff, 0x18cff}, {0x1e5d0, 0x1e5f0},
		{0x2ebf0, 0x2ee5d}},
}

// tekkenPattern is Tekken's, after which \p{N} may be a run of digits.
const (
	tekkenWords = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|`
	tekkenRest = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// tekken returns the pattern of Mistral's Tekken and of Nemotron's tokenizers, tekkenWords,
// \p{N}{1,digits} and tekkenRest. A word is upper-case letters and then lower-case ones, so that
// "CamelCase" is two; letters without case and marks count as both.
func tekken(digits int) words {
	return func(text string) int {
		table := classes()
		first, size := decode(text)
		c := class(table[first] &^ wordBit)
		prefixed := c != letter && c != number && first != '\r' && first != '\n'
		for _, some := range []bool{true, false} {
			if prefixed {
				if n := casedWord(text[size:], some); n > 0 {
					return size + n
				}
			}
			if n := casedWord(text, some); n > 0 {
				return n
			}
		}
		if c == number {
			n := size
			for i := 1; i < digits && n < len(text); i++ {
				r, size := decode(text[n:])
				if class(table[r]&^wordBit) != number {
					break
				}
				n += size
			}
			return n
		}
		start := 0
		if first == ' ' {
			start = 1
		}
		if n := runOf(table, text[start:], other); n > 0 {
			n += start
			return n + len(text[n:]) - len(strings.TrimLeft(text[n:], "\r\n/"))
		}
		return lines(table, text)
	}
}

// casedWord returns the length of U*L+ at the start of text or, if some is false, of U+L*; U and L
// both contain the letters without case. U*L+ takes back what U took until L has one: it ends after
// the last letter without case, unless lower-case letters follow.
func casedWord(text string, some bool) int {
	table := cases()
	n, taken := 0, 0 // taken: the end of the last rune that is in L
	for n < len(text) {
		r, size := decode(text[n:])
		bits := table[r]
		if bits&upper == 0 {
			break
		}
		if n += size; bits == common {
			taken = n
		}
	}
	end := n
	for end < len(text) {
		r, size := decode(text[end:])
		if table[r]&lower == 0 {
			break
		}
		end += size
	}
	switch {
	case some && end == n:
		return taken
	case !some && n == 0:
		return 0
	}
	return end
}
