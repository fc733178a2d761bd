package chat

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// str returns Python's str(v), which is how a template writes v.
func (r *run) str(v any) text {
	switch v := v.(type) {
	case text:
		return v
	case undefined:
		return text{}
	}
	return r.repr(v)
}

// repr returns Python's repr(v).
func (r *run) repr(v any) text {
	b := builder{run: r}
	r.writeRepr(&b, v)
	return b.text()
}

func (r *run) writeRepr(b *builder, v any) {
	defer r.deeper()()
	switch v := v.(type) {
	case nil:
		b.put("None", false)
	case bool:
		b.put(map[bool]string{true: "True", false: "False"}[v], false)
	case int64:
		b.put(strconv.FormatInt(v, 10), false)
	case bigInt:
		b.put(string(v), false)
	case float64:
		b.put(pythonFloat(v), false)
	case text:
		r.writeQuoted(b, v)
	case *list:
		open, end := "[", "]"
		switch {
		case v.once:
			fail("a generator is not written here")
		case v.tuple && len(v.items) == 1:
			open, end = "(", ",)"
		case v.tuple:
			open, end = "(", ")"
		}
		b.put(open, false)
		for i, item := range v.items {
			if i > 0 {
				b.put(", ", false)
			}
			r.writeRepr(b, item)
		}
		b.put(end, false)
	case *dict:
		b.put("{", false)
		for i, k := range v.keys {
			if i > 0 {
				b.put(", ", false)
			}
			r.writeRepr(b, k)
			b.put(": ", false)
			r.writeRepr(b, v.values[i])
		}
		b.put("}", false)
	case *namespace:
		b.put("<Namespace ", false)
		r.writeRepr(b, v.fields)
		b.put(">", false)
	case undefined:
		b.put("Undefined", false)
	default:
		fail("a %s is not written here", typeName(v))
	}
}

// writeQuoted writes Python's repr of a text: in single quotes unless it has these and no double
// ones.
func (r *run) writeQuoted(b *builder, t text) {
	quote := "'"
	if strings.Contains(t.s, "'") && !strings.Contains(t.s, `"`) {
		quote = `"`
	}
	b.put(quote, false)
	for _, one := range r.runes(t) {
		b.put(quoteRune([]rune(one.s)[0], quote), len(one.user) > 0)
	}
	b.put(quote, false)
}

func quoteRune(c rune, quote string) string {
	const digits = "0123456789abcdef"
	hex := func(prefix string, n int) string {
		out := prefix
		for i := n - 1; i >= 0; i-- {
			out += string(digits[c>>(4*i)&15])
		}
		return out
	}
	switch {
	case string(c) == quote, c == '\\':
		return `\` + string(c)
	case c == '\n':
		return `\n`
	case c == '\r':
		return `\r`
	case c == '\t':
		return `\t`
	case unicode.IsPrint(c):
		return string(c)
	case c < 0x100:
		return hex(`\x`, 2)
	case c < 0x10000:
		return hex(`\u`, 4)
	}
	return hex(`\U`, 8)
}

// pythonFloat returns v as Python's repr does: the fewest digits that read back the same.
func pythonFloat(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case math.IsNaN(v):
		return "nan"
	}
	if a := math.Abs(v); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// writeJSON writes v as Python's json.dumps(v, ensure_ascii=ascii, indent=indent); indent is nil
// for one line.
func (r *run) writeJSON(b *builder, v any, ascii bool, indent *string, level int) {
	defer r.deeper()()
	separate := func(first bool, level int) {
		switch {
		case indent != nil:
			if !first {
				b.put(",", false)
			}
			b.put("\n"+strings.Repeat(*indent, level), false)
		case !first:
			b.put(", ", false)
		}
	}
	switch v := v.(type) {
	case nil:
		b.put("null", false)
	case bool:
		b.put(strconv.FormatBool(v), false)
	case int64, bigInt:
		r.writeRepr(b, v)
	case float64:
		b.put(jsonFloat(v), false)
	case text:
		r.writeJSONText(b, v, ascii)
	case *list:
		if v.once {
			fail("Object of type generator is not JSON serializable")
		}
		b.put("[", false)
		for i, item := range v.items {
			separate(i == 0, level+1)
			r.writeJSON(b, item, ascii, indent, level+1)
		}
		if len(v.items) > 0 && indent != nil {
			separate(true, level)
		}
		b.put("]", false)
	case *dict:
		b.put("{", false)
		for i, k := range v.keys {
			separate(i == 0, level+1)
			r.writeJSONText(b, r.jsonKey(k), ascii)
			b.put(": ", false)
			r.writeJSON(b, v.values[i], ascii, indent, level+1)
		}
		if len(v.keys) > 0 && indent != nil {
			separate(true, level)
		}
		b.put("}", false)
	default:
		fail("Object of type %s is not JSON serializable", typeName(v))
	}
}

func (r *run) jsonKey(k any) text {
	switch k := k.(type) {
	case text:
		return k
	case nil:
		return text{s: "null"}
	case bool:
		return text{s: strconv.FormatBool(k)}
	}
	return r.repr(k)
}

func jsonFloat(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	case math.IsNaN(v):
		return "NaN"
	}
	return pythonFloat(v)
}

func (r *run) writeJSONText(b *builder, t text, ascii bool) {
	b.put(`"`, false)
	start := 0 // start of the text that needs no escape
	flush := func(end int) {
		if start < end {
			b.add(t.slice(start, end))
		}
	}
	for i, c := range t.s {
		if c != '"' && c != '\\' && c >= 0x20 && (c < 0x7f || !ascii && c != 0x7f || c == 0x7f) &&
			!(ascii && c > 0x7f) {
			continue
		}
		flush(i)
		start = i + len(string(c))
		user := len(t.slice(i, start).user) > 0
		b.put(jsonEscape(c), user)
	}
	flush(len(t.s))
	b.put(`"`, false)
}

func jsonEscape(c rune) string {
	switch c {
	case '"', '\\':
		return `\` + string(c)
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	hex := func(c rune) string {
		return `\u` + strings.Repeat("0", 4-len(strconv.FormatInt(int64(c), 16))) +
			strconv.FormatInt(int64(c), 16)
	}
	if c > 0xffff {
		c -= 0x10000
		return hex(0xd800+c>>10) + hex(0xdc00+c&0x3ff)
	}
	return hex(c)
}

// fromJSON reads a value of the conversation; all its texts, also keys, count as user input.
func fromJSON(data []byte) (v any, err error) {
	defer recovered(&err)
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	v = readJSON(d, 0)
	if _, err := d.Token(); err != io.EOF {
		fail("byte %d: more than one value", d.InputOffset())
	}
	return v, nil
}

func readJSON(d *json.Decoder, depth int) any {
	t, err := d.Token()
	if err != nil {
		fail("byte %d: %v", d.InputOffset(), err)
	}
	if depth > maxDepth {
		fail("byte %d: nested deeper than %d", d.InputOffset(), maxDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			l := &list{}
			for d.More() {
				l.items = append(l.items, readJSON(d, depth+1))
			}
			closeJSON(d)
			return l
		}
		o := newDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				fail("byte %d: %v", d.InputOffset(), err)
			}
			o.set(said(key.(string)), readJSON(d, depth+1))
		}
		closeJSON(d)
		return o
	case string:
		return said(t)
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n
		}
		if !strings.ContainsAny(string(t), ".eE") {
			return bigInt(t)
		}
		f, err := t.Float64()
		if err != nil && !math.IsInf(f, 0) {
			fail("%.40s: %v", t, err)
		}
		return f
	}
	return t // nil or bool
}

func closeJSON(d *json.Decoder) {
	if _, err := d.Token(); err != nil {
		fail("byte %d: %v", d.InputOffset(), err)
	}
}

// recovered turns a failure into an error; other panics continue.
func recovered(err *error) {
	switch v := recover().(type) {
	case nil:
	case failure:
		*err = v
	default:
		panic(v)
	}
}

func (f failure) Error() string { return f.message }
