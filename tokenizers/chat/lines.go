package chat

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// lines returns the lines of t without their ends (Python's str.splitlines).
func (t text) lines() []text {
	var out []text
	for at := 0; at < len(t.s); {
		n := strings.IndexAny(t.s[at:], "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if n < 0 {
			return append(out, t.slice(at, len(t.s)))
		}
		out = append(out, t.slice(at, at+n))
		_, size := utf8.DecodeRuneInString(t.s[at+n:])
		if strings.HasPrefix(t.s[at+n:], "\r\n") {
			size = 2
		}
		at += n + size
	}
	return out
}

// filterIndent puts white space before every line but the first and empty ones.
func filterIndent(r *run, v any, args []any, named *dict) any {
	known(named, "indent", "width", "first", "blank")
	width := text{s: strings.Repeat(" ", 4)}
	if a, ok := option(args, 0, named, "width"); ok {
		if width, ok = a.(text); !ok {
			width = r.repeat(text{s: " "}, r.index(a))
		}
	}
	first, blank := isSet(args, 1, named, "first"), isSet(args, 2, named, "blank")
	whole := r.binary("+", v, text{s: "\n"})
	r.made(2 * len(whole.(text).s))
	b := builder{run: r}
	for i, line := range whole.(text).lines() {
		if i > 0 {
			b.put("\n", false)
		}
		if i == 0 && first || i > 0 && (line.s != "" || blank) {
			b.add(width)
		}
		b.add(line)
	}
	return b.text()
}

// format is Python's str.format with fields {}, {0} and {name}, and with !s and !r. What else a
// field may say is not done.
func (r *run) format(t text, args []any, named *dict) text {
	b := builder{run: r}
	next := 0 // -1 once fields have numbers
	for at := 0; at < len(t.s); {
		n := strings.IndexAny(t.s[at:], "{}")
		if n < 0 {
			b.add(t.slice(at, len(t.s)))
			break
		}
		b.add(t.slice(at, at+n))
		at += n
		end := strings.IndexByte(t.s[at:], '}')
		switch {
		case strings.HasPrefix(t.s[at+1:], t.s[at:at+1]): // {{ or }}
			b.add(t.slice(at, at+1))
			at += 2
			continue
		case end <= 0:
			fail("format: single %q in a text", t.s[at])
		}
		field, how, _ := strings.Cut(t.s[at+1:at+end], "!")
		at += end + 1
		if strings.ContainsAny(field+how, "{.[:") || how != "" && how != "r" && how != "s" {
			fail("format: field {%.40s} is not done here", t.s[at-end:at-1])
		}
		v := formatted(field, &next, args, named)
		if how == "r" {
			b.add(r.repr(v))
		} else {
			b.add(r.str(v))
		}
	}
	return b.text()
}

// formatted returns the value of a field; next is the number of the next field without one.
func formatted(field string, next *int, args []any, named *dict) any {
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
