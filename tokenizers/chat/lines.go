package chat

import (
	"strconv"
	"strings"
	"unicode"
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
	first, ok := option(args, 1, named, "first")
	blank, ok2 := option(args, 2, named, "blank")
	whole := r.binary("+", v, text{s: "\n"})
	r.made(2 * len(whole.(text).s))
	b := builder{run: r}
	for i, line := range whole.(text).lines() {
		if i > 0 {
			b.put("\n", false)
		}
		if i == 0 && ok && truth(first) || i > 0 && (line.s != "" || ok2 && truth(blank)) {
			b.add(width)
		}
		b.add(line)
	}
	return b.text()
}

// filterTruncate shortens a text to a length, at a space unless killwords is set.
func filterTruncate(r *run, v any, args []any, named *dict) any {
	known(named, "truncate", "length", "killwords", "end", "leeway")
	length, leeway, end := int64(255), int64(5), text{s: "..."}
	if a, ok := option(args, 0, named, "length"); ok {
		length = r.index(a)
	}
	kill, _ := option(args, 1, named, "killwords")
	if a, ok := option(args, 2, named, "end"); ok {
		end = wantText([]any{a}, 0, "truncate")
	}
	if a, ok := option(args, 3, named, "leeway"); ok && a != nil {
		leeway = r.index(a)
	}
	cut := length - r.length(end)
	switch {
	case cut < 0:
		fail("truncate: length is %d, want at least %d", length, r.length(end))
	case leeway < 0:
		fail("truncate: leeway is %d, want 0 or more", leeway)
	case r.length(v) <= length+leeway:
		return v
	}
	kept := r.slice(wantText([]any{v}, 0, "truncate"), [3]any{nil, cut, nil}).(text)
	if at := strings.LastIndexByte(kept.s, ' '); at >= 0 && !truth(kill) {
		kept = kept.slice(0, at)
	}
	return r.join(text{}, []text{kept, end})
}

func filterWordcount(r *run, v any, args []any, named *dict) any {
	s := r.str(v).s
	r.touch(4 * len(s))
	return int64(len(strings.FieldsFunc(s, func(c rune) bool {
		return c != '_' && !unicode.IsLetter(c) && !unicode.IsNumber(c)
	})))
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
