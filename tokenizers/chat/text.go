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

// said returns a text from the conversation.
func said(s string) text {
	if s == "" {
		return text{}
	}
	return text{s: s, user: []span{{0, len(s)}}}
}

// slice returns t.s[i:j].
func (t text) slice(i, j int) text {
	out := text{s: t.s[i:j], safe: t.safe}
	at := sort.Search(len(t.user), func(k int) bool { return t.user[k].end > i })
	for ; at < len(t.user) && t.user[at].start < j; at++ {
		out.user = append(out.user, span{max(t.user[at].start, i) - i, min(t.user[at].end, j) - i})
	}
	return out
}

// runes returns one text for each rune of t.
func (r *run) runes(t text) []text {
	r.made(48 * len(t.s))
	out := make([]text, 0, utf8.RuneCountInString(t.s))
	at := 0 // the first range that may contain the rune
	for i := 0; i < len(t.s); {
		_, size := utf8.DecodeRuneInString(t.s[i:])
		for at < len(t.user) && t.user[at].end <= i {
			at++
		}
		one := text{s: t.s[i : i+size]}
		if at < len(t.user) && t.user[at].start <= i {
			one.user = []span{{0, size}}
		}
		out = append(out, one)
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
	at := 0
	for _, u := range t.user {
		put(at, u.start, true)
		put(u.start, u.end, false)
		at = u.end
	}
	put(at, len(t.s), true)
	return out
}

// builder concatenates texts. It counts bytes against the limit of a rendering.
type builder struct {
	s    strings.Builder
	user []span
	run  *run
}

func (b *builder) add(t text) {
	b.run.made(len(t.s))
	at := b.s.Len()
	b.s.WriteString(t.s)
	for _, u := range t.user {
		b.mark(at+u.start, at+u.end)
	}
}

// put adds s, which is from the template or, if user is set, from the conversation.
func (b *builder) put(s string, user bool) {
	b.run.made(len(s))
	at := b.s.Len()
	b.s.WriteString(s)
	if user && s != "" {
		b.mark(at, at+len(s))
	}
}

func (b *builder) mark(start, end int) {
	if n := len(b.user); n > 0 && b.user[n-1].end == start {
		b.user[n-1].end = end
		return
	}
	b.run.step(1)
	b.user = append(b.user, span{start, end})
}

func (b *builder) text() text { return text{s: b.s.String(), user: b.user} }

// markup returns v as a text that is safe for HTML (markupsafe, escape).
func (r *run) markup(v any) text {
	t := r.str(v)
	r.touch(len(t.s))
	if !t.safe && strings.ContainsAny(t.s, escapedInHTML) {
		t = r.recased(t, func(i int, runes []text) string {
			if n := strings.Index(escapedInHTML, runes[i].s); n >= 0 {
				return []string{"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"}[n]
			}
			return runes[i].s
		})
	}
	t.safe = true
	return t
}

const escapedInHTML = `&<>'"`

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

// split divides t at every sep, at most `most` times from the left (below 0: any number).
func (t text) split(sep string, most int) []text {
	var out []text
	at := 0
	for most != 0 {
		i := strings.Index(t.s[at:], sep)
		if i < 0 {
			break
		}
		out = append(out, t.slice(at, at+i))
		at += i + len(sep)
		most--
	}
	return append(out, t.slice(at, len(t.s)))
}

// fields divides t at runs of white space, at most `most` times (below 0: any number).
func (t text) fields(most int) []text {
	var out []text
	skip := func(at int) int {
		return len(t.s) - len(strings.TrimLeftFunc(t.s[at:], isSpace))
	}
	for at := skip(0); at < len(t.s); most-- {
		n := strings.IndexFunc(t.s[at:], isSpace)
		if n < 0 || most == 0 {
			return append(out, t.slice(at, len(t.s)))
		}
		out = append(out, t.slice(at, at+n))
		at = skip(at + n)
	}
	return out
}

// strip removes runes in a set from both ends.
func (t text) strip(in func(rune) bool, left, right bool) text {
	start, end := 0, len(t.s)
	if left {
		start = end - len(strings.TrimLeftFunc(t.s, in))
	}
	if right {
		end = start + len(strings.TrimRightFunc(t.s[start:], in))
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
