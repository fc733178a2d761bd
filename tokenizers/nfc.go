package tokenizers

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// form is one of Unicode's four normal forms with the tables of Hugging Face's library, Unicode 9:
// newer runes stay unchanged and in place (inert).
type form struct {
	decomposed norm.Form // norm.NFD or norm.NFKD
	compose    bool
}

func (f form) normalize(text string) string {
	ascii := true
	for i := 0; i < len(text) && ascii; i++ {
		ascii = text[i] < utf8.RuneSelf
	}
	if ascii {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	start, inert := 0, tables()["inert"]
	for at, r := range text {
		if r >= inert[0][0] && inRanges(inert, r) {
			out = f.append(out, text[start:at])
			start = at + utf8.RuneLen(r)
			out = append(out, text[at:start]...)
		}
	}
	return string(f.append(out, text[start:]))
}

// append adds the normal form of text, which has no inert rune. Most text is normalised by x/text,
// which inserts U+034F into more than 30 marks in a row. Such text is normalised here.
func (f form) append(out []byte, text string) []byte {
	marks, most := 0, 0
	for _, r := range text {
		if r < 0x300 || norm.NFD.PropertiesString(string(r)).CCC() == 0 {
			marks = -1
		}
		marks++
		most = max(most, marks)
	}
	switch {
	case most < 8: // runes decompose to at most 3 marks
		whole := f.decomposed
		if f.compose {
			whole-- // NFC after NFD, NFKC after NFKD
		}
		return append(out, whole.String(text)...) // AppendString would change the end of out
	case f.compose:
		return appendRunes(out, composed(f.sorted(text)))
	}
	return appendRunes(out, f.sorted(text))
}

// sorted returns the decomposition of text with each run of marks in order of their classes.
func (f form) sorted(text string) []rune {
	var runes []rune
	start := 0 // start of the marks at the end
	sort := func() {
		if len(runes)-start > 1 {
			slices.SortStableFunc(runes[start:],
				func(a, b rune) int { return cmp.Compare(ccc(a), ccc(b)) })
		}
	}
	for _, r := range text {
		for _, d := range f.decomposed.String(string(r)) {
			if ccc(d) == 0 {
				sort()
				start = len(runes) + 1
			}
			runes = append(runes, d)
		}
	}
	sort()
	return runes
}

func ccc(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

func appendRunes(out []byte, runes []rune) []byte {
	for _, r := range runes {
		out = utf8.AppendRune(out, r)
	}
	return out
}

// composed returns the canonical composition, in place, of decomposed and sorted runes (Unicode
// 3.11, D117).
func composed(runes []rune) []rune {
	starter, last := -1, uint8(0) // place of the last starter; class of the last kept rune after it
	n := 0
	for _, r := range runes {
		class := ccc(r)
		if starter >= 0 && (n == starter+1 || last < class) {
			if c, ok := pairOf(runes[starter], r); ok {
				runes[starter] = c
				continue
			}
		}
		if class == 0 {
			starter = n
		}
		last = class
		runes[n] = r
		n++
	}
	return runes[:n]
}

// pairOf returns the composition of a and b.
func pairOf(a, b rune) (rune, bool) {
	text := norm.NFC.String(string([]rune{a, b}))
	r, size := utf8.DecodeRuneInString(text)
	return r, size == len(text)
}
