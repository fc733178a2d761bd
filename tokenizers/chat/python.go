package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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
	case float64:
		b.put(pythonFloat(v), false)
	case text:
		r.writeQuoted(b, v)
	case *list:
		open, end := "[", "]"
		switch {
		case v.once:
			fail("a generator is not written here")
		case strings.HasPrefix(v.view, "range"):
			b.put(v.view, false)
			return
		case v.view != "":
			open, end = v.view+"([", "])"
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
	}
	return quoteHex(c)
}

// quoteHex returns Python's escape of a character by its number.
func quoteHex(c rune) string {
	switch {
	case c < 0x100:
		return fmt.Sprintf(`\x%02x`, c)
	case c < 0x10000:
		return fmt.Sprintf(`\u%04x`, c)
	}
	return fmt.Sprintf(`\U%08x`, c)
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

// jsonWriter writes values as Python's json.dumps.
type jsonWriter struct {
	run       *run
	b         builder
	ascii     bool
	sort      bool
	indent    *text // of each level; nil for one line
	item, key text  // separators
}

// separate begins an item, or ends the last one.
func (w *jsonWriter) separate(first bool, level int) {
	if !first {
		w.b.add(w.item)
	}
	if w.indent != nil {
		w.b.put("\n", false)
		for range level {
			w.b.add(*w.indent)
		}
	}
}

func (w *jsonWriter) write(v any, level int) {
	defer w.run.deeper()()
	switch v := v.(type) {
	case nil:
		w.b.put("null", false)
	case bool:
		w.b.put(strconv.FormatBool(v), false)
	case int64:
		w.run.writeRepr(&w.b, v)
	case float64:
		w.b.put(jsonFloat(v), false)
	case text:
		w.run.writeJSONText(&w.b, v, w.ascii)
	case *list:
		if v.once || v.view != "" {
			fail("Object of type %s is not JSON serializable", typeName(v))
		}
		w.b.put("[", false)
		for i, item := range v.items {
			w.separate(i == 0, level+1)
			w.write(item, level+1)
		}
		if len(v.items) > 0 && w.indent != nil {
			w.separate(true, level)
		}
		w.b.put("]", false)
	case *dict:
		w.dict(v, level)
	default:
		fail("Object of type %s is not JSON serializable", typeName(v))
	}
}

func (w *jsonWriter) dict(d *dict, level int) {
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if w.sort {
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case w.run.less(d.keys[a], d.keys[b]):
				return -1
			case w.run.less(d.keys[b], d.keys[a]):
				return 1
			}
			return 0
		})
	}
	w.b.put("{", false)
	for n, i := range order {
		w.separate(n == 0, level+1)
		w.run.writeJSONText(&w.b, w.run.jsonKey(d.keys[i]), w.ascii)
		w.b.add(w.key)
		w.write(d.values[i], level+1)
	}
	if len(d.keys) > 0 && w.indent != nil {
		w.separate(true, level)
	}
	w.b.put("}", false)
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
		marked := c == '"' || c == '\\'
		if !marked && c >= 0x20 && (c <= 0x7f || !ascii) {
			continue
		}
		flush(i)
		start = i + utf8.RuneLen(c)
		user := len(t.slice(i, start).user) > 0
		if marked { // it stands for itself behind a backslash
			start = i
			b.put(`\`, user)
			continue
		}
		b.put(jsonEscape(c), user)
	}
	flush(len(t.s))
	b.put(`"`, false)
}

func jsonEscape(c rune) string {
	switch c {
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
			fail("byte %d: %.40s is not a whole number of 64 bits", d.InputOffset(), t)
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
