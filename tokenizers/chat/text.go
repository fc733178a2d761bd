package chat

import (
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"unmask/tokenizers"
)

// text is a string that records which of its bytes came from the conversation, so that these never
// become special tokens, whatever a template does with them.
type text struct {
	s    string
	user []span // byte ranges from the conversation, ordered and disjoint
	safe bool   // for HTML: + escapes what is added to it
}

type span struct{ start, end int }

// userText returns a text from the conversation.
func userText(s string) text {
	if s == "" {
		return text{}
	}
	return text{s: s, user: []span{{0, len(s)}}}
}

// slice returns t.s[i:j].
func (t text) slice(i, j int) text {
	out := text{s: t.s[i:j], safe: t.safe}
	first := sort.Search(len(t.user), func(k int) bool { return t.user[k].end > i })
	for _, u := range t.user[first:] {
		if u.start >= j {
			break
		}
		out.user = append(out.user, span{max(u.start, i) - i, min(u.end, j) - i})
	}
	return out
}

// splitRunes returns one text for each rune of t.
func (r *run) splitRunes(t text) []text {
	r.countMade(48 * len(t.s))
	out := make([]text, 0, utf8.RuneCountInString(t.s))
	user := t.user // without the ranges before the rune
	for i := 0; i < len(t.s); {
		_, size := utf8.DecodeRuneInString(t.s[i:])
		for len(user) > 0 && user[0].end <= i {
			user = user[1:]
		}
		character := text{s: t.s[i : i+size]}
		if len(user) > 0 && user[0].start <= i {
			character.user = []span{{0, size}}
		}
		out = append(out, character)
		i += size
	}
	return out
}

// parts divides t at the borders of the conversation's text.
func (t text) parts() []tokenizers.Part {
	var out []tokenizers.Part
	put := func(start, end int, special bool) {
		if start < end {
			out = append(out, tokenizers.Part{Text: t.s[start:end], Special: special})
		}
	}
	end := 0
	for _, u := range t.user {
		put(end, u.start, true)
		put(u.start, u.end, false)
		end = u.end
	}
	put(end, len(t.s), true)
	return out
}

// builder concatenates texts. It counts bytes against the limit of a rendering.
type builder struct {
	s    strings.Builder
	user []span
	run  *run
}

// add adds t with the marks of what came from the conversation.
func (b *builder) add(t text) {
	b.run.countMade(len(t.s))
	start := b.s.Len()
	b.s.WriteString(t.s)
	for _, u := range t.user {
		b.markUser(start+u.start, start+u.end)
	}
}

// addString adds s, which is from the template or, if user is set, from the conversation.
func (b *builder) addString(s string, user bool) {
	b.run.countMade(len(s))
	start := b.s.Len()
	b.s.WriteString(s)
	if user && s != "" {
		b.markUser(start, start+len(s))
	}
}

// markUser notes a range as the conversation's, and joins it to one that ends where it starts.
func (b *builder) markUser(start, end int) {
	if n := len(b.user); n > 0 && b.user[n-1].end == start {
		b.user[n-1].end = end
		return
	}
	b.run.countSteps(1)
	b.user = append(b.user, span{start, end})
}

func (b *builder) text() text { return text{s: b.s.String(), user: b.user} }

// escapeHTML returns v as a text that is safe for HTML (markupsafe, escape).
func (r *run) escapeHTML(v any) text {
	t := r.pythonStr(v)
	r.countRead(len(t.s))
	if !t.safe && strings.ContainsAny(t.s, htmlSpecial) {
		t = r.mapRunes(t, func(i int, runes []text) string {
			if n := strings.Index(htmlSpecial, runes[i].s); n >= 0 {
				return []string{"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"}[n]
			}
			return runes[i].s
		})
	}
	t.safe = true
	return t
}

const htmlSpecial = `&<>'"`

// join puts sep between texts.
func (r *run) join(sep text, texts []text) text {
	b := builder{run: r}
	for i, t := range texts {
		if i > 0 {
			b.add(sep)
		}
		b.add(t)
	}
	return b.text()
}

// split divides t at every sep, at most limit times from the left (below 0: any number).
func (t text) split(sep string, limit int) []text {
	var out []text
	start := 0
	for limit != 0 {
		n := strings.Index(t.s[start:], sep)
		if n < 0 {
			break
		}
		out = append(out, t.slice(start, start+n))
		start += n + len(sep)
		limit--
	}
	return append(out, t.slice(start, len(t.s)))
}

// splitSpace divides t at runs of white space, at most limit times (below 0: any number). White
// space at its ends makes no fields.
func (t text) splitSpace(limit int) []text {
	var out []text
	skipSpace := func(i int) int {
		return len(t.s) - len(strings.TrimLeftFunc(t.s[i:], isSpace))
	}
	for start := skipSpace(0); start < len(t.s); limit-- {
		n := strings.IndexFunc(t.s[start:], isSpace)
		if n < 0 || limit == 0 {
			return append(out, t.slice(start, len(t.s)))
		}
		out = append(out, t.slice(start, start+n))
		start = skipSpace(start + n)
	}
	return out
}

// strip removes runes for which isStripped is true from the left, the right, or both ends.
func (t text) strip(isStripped func(rune) bool, left, right bool) text {
	start := 0
	end := len(t.s)
	if left {
		start = end - len(strings.TrimLeftFunc(t.s, isStripped))
	}
	if right {
		end = start + len(strings.TrimRightFunc(t.s[start:], isStripped))
	}
	if start == 0 && end == len(t.s) {
		return t
	}
	return t.slice(start, end)
}

// isSpace returns Python's str.isspace of one character.
func isSpace(r rune) bool {
	switch {
	case r >= 9 && r <= 13, r >= 28 && r <= 32, r == 0x85, r == 0xa0, r == 0x1680:
		return true
	case r >= 0x2000 && r <= 0x200a, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// Changes of the case of one character by Unicode's full mappings, as Python has them: ß becomes
// SS. They are made per call, because a Caser has state.
func upper(s string) string { return cases.Upper(language.Und).String(s) }
func lower(s string) string { return cases.Lower(language.Und).String(s) }

// mapRunes replaces each rune by what change returns for it, so that marks of the conversation's
// text stay.
func (r *run) mapRunes(t text, change func(i int, runes []text) string) text {
	runes := r.splitRunes(t)
	b := builder{run: r}
	for i, character := range runes {
		b.addString(change(i, runes), len(character.user) > 0)
	}
	out := b.text()
	out.safe = t.safe
	return out
}

// upper returns Python's t.upper().
func (r *run) upper(t text) text {
	return r.mapRunes(t, func(i int, runes []text) string {
		return changeCase(runes[i].s, 'a', 'z', upper)
	})
}

// lower returns Python's t.lower().
func (r *run) lower(t text) text {
	if strings.Contains(t.s, "Σ") { // its form depends on what is around it
		fail("lower of a text with Σ is not supported")
	}
	return r.mapRunes(t, func(i int, runes []text) string {
		return changeCase(runes[i].s, 'A', 'Z', lower)
	})
}

// changeCase returns change(s). An ASCII character changes here, and only if it is one of first to
// last, because change is slow.
func changeCase(s string, first, last byte, change func(string) string) string {
	if len(s) == 1 {
		if s[0] >= first && s[0] <= last {
			return string(s[0] ^ 0x20)
		}
		return s
	}
	return change(s)
}
