package chat

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Changes of the case of one character by Unicode's full mappings, as Python has them: ß becomes
// SS. They are made per call, because a Caser has state.
func upper(s string) string { return cases.Upper(language.Und).String(s) }
func lower(s string) string { return cases.Lower(language.Und).String(s) }

// recased changes the case of each rune by how, so that marks of the conversation's text stay.
func (r *run) recased(t text, how func(i int, runes []text) string) text {
	runes := r.runes(t)
	b := builder{run: r}
	for i, one := range runes {
		b.put(how(i, runes), len(one.user) > 0)
	}
	out := b.text()
	out.safe = t.safe
	return out
}

func (r *run) upper(t text) text {
	return r.recased(t, func(i int, runes []text) string { return ascii(runes[i].s, 'a', 'z', upper) })
}

func (r *run) lower(t text) text {
	if strings.Contains(t.s, "Σ") { // its form depends on what is around it
		fail("lower of a text with Σ is not done here")
	}
	return r.recased(t, func(i int, runes []text) string { return ascii(runes[i].s, 'A', 'Z', lower) })
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
