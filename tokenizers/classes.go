package tokenizers

import (
	_ "embed"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// classFile is written by testdata/classes.py and testdata/cased.py: a line for each table, its
// name and its ranges in hexadecimal. The tables are of Unicode 16, as in the patterns of Hugging
// Face's library; Go's are of Unicode 15.
//
//	letters     \p{L}
//	numbers     \p{N}
//	numerics    Rust's numeric characters that are not in numbers
//	wordOthers  \w of Rust's regex without letters; Oniguruma's has no U+200C and U+200D
//	marks       what StripAccents drops
//	nonspacing  the accents that BertNormalizer drops
//	controls    what BertNormalizer drops as not printed
//	chinese     what BertNormalizer puts spaces around
//	signs       punctuation for BertPreTokenizer and Punctuation
//	inert       what the library's normalisers, of Unicode 9, leave in place
//	lowers      characters and their lower cases that Unicode 16 has and Unicode 15 has not
//	upper       what \p{Lu} has since Unicode 16
//	lower       what \p{Ll} has since Unicode 16
//	caseless    what \p{Lm}, \p{Lo} and \p{M} together have since Unicode 16
//
//go:embed classes.txt
var classFile string

// unicodeTables holds the tables of classFile by name: sorted ranges, both ends included.
var unicodeTables = sync.OnceValue(func() map[string][][2]rune {
	all := map[string][][2]rune{}
	for line := range strings.Lines(classFile) {
		fields := strings.Fields(line)
		for _, field := range fields[1:] {
			first, last, isRange := strings.Cut(field, "-")
			if !isRange {
				last = first
			}
			lo, errLo := strconv.ParseUint(first, 16, 32)
			hi, errHi := strconv.ParseUint(last, 16, 32)
			if errLo != nil || errHi != nil {
				panic("tokenizers: classes.txt has " + field) // cannot happen: the file is embedded
			}
			all[fields[0]] = append(all[fields[0]], [2]rune{rune(lo), rune(hi)})
		}
	}
	return all
})

// newLowerCases are the lower cases that Unicode 16 has and Unicode 15 has not.
var newLowerCases = sync.OnceValue(func() map[rune]rune {
	m := map[rune]rune{}
	for _, pair := range unicodeTables()["lowers"] {
		m[pair[0]] = pair[1]
	}
	return m
})

// isWordRune reports whether r is a word character, \w of Rust's regex.
func isWordRune(r rune) bool {
	return inRanges(unicodeTables()["letters"], r) || inRanges(unicodeTables()["wordOthers"], r)
}

// isNumeric reports whether r is a number in the tables of the Digits pre-tokenizer.
func isNumeric(r rune) bool {
	return inRanges(unicodeTables()["numbers"], r) || inRanges(unicodeTables()["numerics"], r)
}

// inRanges searches sorted ranges.
func inRanges(ranges [][2]rune, r rune) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i][1] >= r })
	return i < len(ranges) && ranges[i][0] <= r
}

// decodeRune is utf8.DecodeRuneInString with a short way for ASCII.
func decodeRune(text string) (rune, int) {
	if len(text) > 0 && text[0] < utf8.RuneSelf {
		return rune(text[0]), 1
	}
	return utf8.DecodeRuneInString(text)
}
