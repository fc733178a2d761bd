package chat

import (
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Changes of the case of one character by Unicode's full mappings, as Python has them: ß becomes SS
// or, as a title, Ss. They are made per call, because a Caser has state.
func upper(s string) string { return cases.Upper(language.Und).String(s) }
func title(s string) string { return cases.Title(language.Und, cases.NoLower).String(s) }
func lower(s string) string { return cases.Lower(language.Und).String(s) }

// recased changes the case of each rune by how, so that marks of the conversation's text stay.
func (r *run) recased(t text, how func(i int, runes []text) string) text {
	runes := r.runes(t)
	b := builder{run: r}
	for i, one := range runes {
		b.put(how(i, runes), len(one.user) > 0)
	}
	return b.text()
}

func (r *run) upper(t text) text {
	return r.recased(t, func(i int, runes []text) string { return ascii(runes[i].s, 'a', 'z', upper) })
}

func (r *run) lower(t text) text { return r.recased(t, lowered) }

// capitalize returns Python's str.capitalize.
func (r *run) capitalize(t text) text {
	return r.recased(t, func(i int, runes []text) string {
		if i == 0 {
			return title(runes[i].s)
		}
		return lowered(i, runes)
	})
}

// title returns Python's str.title: words are runs of characters that have a case.
func (r *run) title(t text) text {
	return r.recased(t, func(i int, runes []text) string {
		if i > 0 && cased(runes[i-1].s) {
			return lowered(i, runes)
		}
		return title(runes[i].s)
	})
}

// ascii changes s at once if it is ASCII outside from ... to, which change never changes.
func ascii(s string, from, to byte, change func(string) string) string {
	if len(s) == 1 {
		if s[0] >= from && s[0] <= to {
			return string(s[0] ^ 0x20)
		}
		return s
	}
	return change(s)
}

// lowered returns rune i in lower case. A capital sigma at the end of a word becomes a final one
// (Unicode, SpecialCasing.txt, Final_Sigma).
func lowered(i int, runes []text) string {
	if runes[i].s != "Σ" {
		return ascii(runes[i].s, 'A', 'Z', lower)
	}
	const far = 64 // most ignorable characters that are looked over
	before, after := i-1, i+1
	for before >= 0 && i-before < far && ignorable(runes[before].s) {
		before--
	}
	for after < len(runes) && after-i < far && ignorable(runes[after].s) {
		after++
	}
	if before >= 0 && cased(runes[before].s) && (after == len(runes) || !cased(runes[after].s)) {
		return "ς"
	}
	return "σ"
}

func first(s string) rune {
	for _, c := range s {
		return c
	}
	return 0
}

func cased(s string) bool {
	c := first(s)
	return unicode.IsUpper(c) || unicode.IsLower(c) || unicode.IsTitle(c) ||
		unicode.In(c, unicode.Other_Uppercase, unicode.Other_Lowercase)
}

func ignorable(s string) bool {
	c := first(s)
	switch c {
	case '\'', '.', ':', '·', '\u2018', '\u2019', '\u2024', '\u2027', '\ufe13', '\ufe52', '\ufe55',
		'\uff07', '\uff0e', '\uff1a', '\u0387', '\u055f', '\u05f4':
		return true
	}
	return unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}
