package chat

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// splitLines returns the lines of t without their ends (Python's str.splitlines).
func (t text) splitLines() []text {
	var out []text
	for pos := 0; pos < len(t.s); {
		n := strings.IndexAny(t.s[pos:], "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if n < 0 {
			return append(out, t.slice(pos, len(t.s)))
		}
		out = append(out, t.slice(pos, pos+n))
		_, size := utf8.DecodeRuneInString(t.s[pos+n:])
		if strings.HasPrefix(t.s[pos+n:], "\r\n") {
			size = 2
		}
		pos += n + size
	}
	return out
}

// filterIndent puts white space before every line but the first and empty ones.
func filterIndent(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "indent", "width", "first", "blank")
	width := text{s: strings.Repeat(" ", 4)}
	if a, ok := argument(args, 0, named, "width"); ok {
		t, isText := a.(text)
		if !isText {
			t = r.repeatText(text{s: " "}, r.asIndex(a))
		}
		width = t
	}
	first := argumentIsTrue(args, 1, named, "first")
	blank := argumentIsTrue(args, 2, named, "blank")
	// As in Jinja, a line end at the end of the text is left out by splitLines and this one instead.
	whole := r.applyBinary("+", v, text{s: "\n"}).(text)
	r.countMade(2 * len(whole.s))
	b := builder{run: r}
	for i, line := range whole.splitLines() {
		if i > 0 {
			b.addString("\n", false)
		}
		if i == 0 && first || i > 0 && (line.s != "" || blank) {
			b.add(width)
		}
		b.add(line)
	}
	return b.text()
}

// formatText is Python's str.format with fields {}, {0} and {name}, and with !s and !r. What else a
// field may say, such as a width, is not supported.
func (r *run) formatText(t text, args []any, named *dict) text {
	b := builder{run: r}
	next := 0 // -1 once fields have numbers
	for pos := 0; pos < len(t.s); {
		n := strings.IndexAny(t.s[pos:], "{}")
		if n < 0 {
			b.add(t.slice(pos, len(t.s)))
			break
		}
		b.add(t.slice(pos, pos+n))
		pos += n
		if strings.HasPrefix(t.s[pos+1:], t.s[pos:pos+1]) { // {{ or }}
			b.add(t.slice(pos, pos+1))
			pos += 2
			continue
		}
		end := strings.IndexByte(t.s[pos:], '}')
		if end <= 0 {
			fail("format: single %q in a text", t.s[pos])
		}
		content := t.s[pos+1 : pos+end]
		pos += end + 1
		field, conversion, _ := strings.Cut(content, "!")
		isSupported := conversion == "" || conversion == "r" || conversion == "s"
		if strings.ContainsAny(field+conversion, "{.[:") || !isSupported {
			fail("format: field {%.40s} is not supported", content)
		}
		v := formatField(field, &next, args, named)
		if conversion == "r" {
			b.add(r.pythonRepr(v))
		} else {
			b.add(r.pythonStr(v))
		}
	}
	return b.text()
}

// formatField returns the value of a field; next is the number of the next field without one.
func formatField(field string, next *int, args []any, named *dict) any {
	i, err := strconv.Atoi(field)
	switch {
	case field == "" && *next >= 0:
		i = *next
		*next++
	case err == nil && *next <= 0:
		*next = -1
	case field == "" || err == nil:
		fail("format: cannot have both {} and {0}")
	default:
		if v, ok := named.get(text{s: field}); ok {
			return v
		}
		fail("format: no argument for field {%.40s}", field)
	}
	if i < 0 || i >= len(args) {
		fail("format: no argument for field {%d}", i)
	}
	return args[i]
}
