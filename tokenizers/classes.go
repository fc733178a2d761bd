package tokenizers

import (
	_ "embed"
	"strconv"
	"strings"
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

// tables are ranges of code points, both ends included, as classes.txt has them by these names.
type tables struct {
	letters    [][2]rune     // \p{L}
	numbers    [][2]rune     // \p{N}
	numerics   [][2]rune     // Rust's numeric characters that are not in numbers
	wordOthers [][2]rune     // \w without letters
	marks      [][2]rune     // what StripAccents drops
	nonspacing [][2]rune     // the accents that BertNormalizer drops
	controls   [][2]rune     // what BertNormalizer drops as not printed
	chinese    [][2]rune     // what BertNormalizer puts spaces around
	signs      [][2]rune     // punctuation for BertPreTokenizer and Punctuation
	inert      [][2]rune     // what the library's normalisers, of Unicode 9, leave in place
	lowers     map[rune]rune // lower cases that Unicode 16 has and Unicode 15 has not
}

// classFile is written by testdata/classes.py: a line for each table, its name and its ranges in
// hexadecimal. A range of lowers is a character and its lower case.
//
//go:embed classes.txt
var classFile string

// unicodeTables returns the tables; classFile is read once.
var unicodeTables = sync.OnceValue(func() *tables {
	t := &tables{lowers: map[rune]rune{}}
	var lowers [][2]rune
	of := map[string]*[][2]rune{"letters": &t.letters, "numbers": &t.numbers,
		"numerics": &t.numerics, "wordOthers": &t.wordOthers, "marks": &t.marks,
		"nonspacing": &t.nonspacing, "controls": &t.controls, "chinese": &t.chinese,
		"signs": &t.signs, "inert": &t.inert, "lowers": &lowers}
	for line := range strings.Lines(classFile) {
		fields := strings.Fields(line)
		for _, field := range fields[1:] {
			first, last, isRange := strings.Cut(field, "-")
			if !isRange {
				last = first
			}
			lo, err := strconv.ParseUint(first, 16, 32)
			hi, err2 := strconv.ParseUint(last, 16, 32)
			if err != nil || err2 != nil {
				panic("tokenizers: classes.txt has " + field) // cannot happen: the file is embedded
			}
			*of[fields[0]] = append(*of[fields[0]], [2]rune{rune(lo), rune(hi)})
		}
	}
	for _, pair := range lowers {
		t.lowers[pair[0]] = pair[1]
	}
	return t
})

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
	fill(unicodeTables().letters, uint8(letter)|wordBit)
	fill(unicodeTables().numbers, uint8(number))
	fill(unicodeTables().wordOthers, wordBit)
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
	return inRanges(unicodeTables().numerics, r)
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
