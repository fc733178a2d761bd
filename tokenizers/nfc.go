package tokenizers

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalForm is one of Unicode's four normal forms with the tables of Hugging Face's library,
// Unicode 9: newer runes stay unchanged and in place (inert).
type normalForm struct {
	decomposed norm.Form // norm.NFD or norm.NFKD
	compose    bool
}

// normalize returns a text in the normal form.
func (f normalForm) normalize(text string) string {
	ascii := true
	for i := 0; i < len(text) && ascii; i++ {
		ascii = text[i] < utf8.RuneSelf
	}
	if ascii {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	start := 0
	inert := unicodeTables()["inert"]
	for i, r := range text {
		if r >= inert[0][0] && inRanges(inert, r) {
			out = f.appendForm(out, text[start:i])
			start = i + utf8.RuneLen(r)
			out = append(out, text[i:start]...)
		}
	}
	return string(f.appendForm(out, text[start:]))
}

// appendForm adds the normal form of text, which has no inert rune. Most text is normalised by
// x/text, which inserts U+034F into more than 30 marks in a row. Such text is normalised here.
func (f normalForm) appendForm(out []byte, text string) []byte {
	marks := 0 // in a row
	longest := 0
	for _, r := range text {
		if r < 0x300 || combiningClass(r) == 0 {
			marks = -1
		}
		marks++
		longest = max(longest, marks)
	}
	switch {
	case longest < 8: // runes decompose to at most 3 marks
		whole := f.decomposed
		if f.compose {
			whole-- // NFC after NFD, NFKC after NFKD
		}
		return append(out, whole.String(text)...) // AppendString would change the end of out
	case f.compose:
		return appendRunes(out, composeRunes(f.decompose(text)))
	}
	return appendRunes(out, f.decompose(text))
}

// decompose returns the decomposition of text with each run of marks in order of their classes.
func (f normalForm) decompose(text string) []rune {
	var runes []rune
	start := 0 // of the marks at the end
	sortMarks := func() {
		if len(runes)-start > 1 {
			slices.SortStableFunc(runes[start:],
				func(a, b rune) int { return cmp.Compare(combiningClass(a), combiningClass(b)) })
		}
	}
	for _, r := range text {
		for _, d := range f.decomposed.String(string(r)) {
			if combiningClass(d) == 0 {
				sortMarks()
				start = len(runes) + 1
			}
			runes = append(runes, d)
		}
	}
	sortMarks()
	return runes
}

// combiningClass returns a rune's canonical combining class, 0 for what is no mark.
func combiningClass(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

// appendRunes adds runes in UTF-8.
func appendRunes(out []byte, runes []rune) []byte {
	for _, r := range runes {
		out = utf8.AppendRune(out, r)
	}
	return out
}

// composeRunes returns the canonical composition, in place, of decomposed and sorted runes (Unicode
// 3.11, D117).
func composeRunes(runes []rune) []rune {
	starter := -1    // place of the last starter
	last := uint8(0) // class of the last rune after it that was not composed
	n := 0
	for _, r := range runes {
		class := combiningClass(r)
		if starter >= 0 && (n == starter+1 || last < class) {
			if c, ok := composePair(runes[starter], r); ok {
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

// composePair returns the composition of a and b.
func composePair(a, b rune) (rune, bool) {
	text := norm.NFC.String(string([]rune{a, b}))
	r, size := utf8.DecodeRuneInString(text)
	return r, size == len(text)
}
