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
	"unicode/utf16"
	"unicode/utf8"

	"unmask/internal/jsonline"
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
	w := writer{run: r, b: builder{run: r}, item: text{s: ", "}, key: text{s: ": "}}
	w.write(v, 0)
	return w.b.text()
}

// writer writes values as Python's repr or, with json, as its json.dumps.
type writer struct {
	run         *run
	b           builder
	json        bool
	ascii, sort bool
	indent      *text // of each level; nil for one line
	item, key   text  // separators
}

func (w *writer) write(v any, level int) {
	defer w.run.deeper()()
	word := func(repr, json string) {
		if w.json {
			repr = json
		}
		w.b.put(repr, false)
	}
	switch v := v.(type) {
	case nil:
		word("None", "null")
	case bool:
		word(map[bool]string{true: "True", false: "False"}[v], strconv.FormatBool(v))
	case int64:
		w.b.put(strconv.FormatInt(v, 10), false)
	case json.Number:
		w.b.put(string(v), false)
	case float64:
		word(pythonFloat(v, "inf", "nan"), pythonFloat(v, "Infinity", "NaN"))
	case text:
		if w.json {
			w.run.writeJSONText(&w.b, v, w.ascii)
		} else {
			w.run.writeQuoted(&w.b, v)
		}
	case *list:
		w.list(v, level)
	case *dict:
		w.dict(v, level)
	default:
		w.other(v, level)
	}
}

// other writes values that JSON does not have.
func (w *writer) other(v any, level int) {
	if w.json {
		fail("Object of type %s is not JSON serializable", typeName(v))
	}
	switch v := v.(type) {
	case *namespace:
		w.b.put("<Namespace ", false)
		w.write(v.fields, level)
		w.b.put(">", false)
	case undefined:
		w.b.put("Undefined", false)
	default:
		fail("a %s is not written here", typeName(v))
	}
}

func (w *writer) list(l *list, level int) {
	open, end := "[", "]"
	switch {
	case w.json && (l.once || l.view != ""):
		w.other(l, level)
	case w.json:
	case l.once:
		fail("a generator is not written here")
	case strings.HasPrefix(l.view, "range"):
		w.b.put(l.view, false)
		return
	case l.view != "":
		open, end = l.view+"([", "])"
	case l.tuple && len(l.items) == 1:
		open, end = "(", ",)"
	case l.tuple:
		open, end = "(", ")"
	}
	w.between(open, end, len(l.items), level, func(i int) { w.write(l.items[i], level+1) })
}

func (w *writer) dict(d *dict, level int) {
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if w.sort {
		slices.SortStableFunc(order, func(a, b int) int { return w.run.order(d.keys[a], d.keys[b]) })
	}
	w.between("{", "}", len(order), level, func(n int) {
		key := d.keys[order[n]]
		if w.json {
			w.run.writeJSONText(&w.b, w.run.jsonKey(key), w.ascii)
		} else {
			w.write(key, level+1)
		}
		w.b.add(w.key)
		w.write(d.values[order[n]], level+1)
	})
}

// between writes n items with what separates them, indented where that is wanted.
func (w *writer) between(open, end string, n, level int, item func(i int)) {
	line := func(level int) {
		if w.indent != nil {
			w.b.put("\n", false)
			for range level {
				w.b.add(*w.indent)
			}
		}
	}
	w.b.put(open, false)
	for i := range n {
		if i > 0 {
			w.b.add(w.item)
		}
		line(level + 1)
		item(i)
	}
	if n > 0 {
		line(level)
	}
	w.b.put(end, false)
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
	switch at := strings.IndexRune("\n\r\t", c); {
	case string(c) == quote, c == '\\':
		return `\` + string(c)
	case at >= 0:
		return `\` + "nrt"[at:at+1]
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
func pythonFloat(v float64, infinity, nan string) string {
	switch {
	case math.IsInf(v, 1):
		return infinity
	case math.IsInf(v, -1):
		return "-" + infinity
	case math.IsNaN(v):
		return nan
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
	if at := strings.IndexRune("\n\r\t\b\f", c); at >= 0 {
		return `\` + "nrtbf"[at:at+1]
	}
	if c > 0xffff {
		high, low := utf16.EncodeRune(c)
		return jsonEscape(high) + jsonEscape(low)
	}
	return fmt.Sprintf(`\u%04x`, c)
}

// fromJSON reads a value of the conversation; all its texts, also keys, count as user input.
func fromJSON(data []byte) (v any, err error) {
	defer recovered(&err)
	if err = jsonline.CheckUTF8(data); err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	v = readJSON(d, 0)
	if _, err := d.Token(); err != io.EOF {
		fail("byte %d: more than one value", d.InputOffset())
	}
	return v, jsonline.CheckPairs(data)
}

// nextJSON reads the next token.
func nextJSON(d *json.Decoder) json.Token {
	t, err := d.Token()
	if err != nil {
		fail("byte %d: %v", d.InputOffset(), err)
	}
	return t
}

func readJSON(d *json.Decoder, depth int) any {
	t := nextJSON(d)
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
			nextJSON(d)
			return l
		}
		o := newDict()
		for d.More() {
			key := nextJSON(d).(string)
			o.set(said(key), readJSON(d, depth+1))
		}
		nextJSON(d)
		return o
	case string:
		return said(t)
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n
		}
		if !strings.ContainsAny(string(t), ".eE") {
			return t // which is written, but not computed with
		}
		f, err := t.Float64()
		if err != nil && !math.IsInf(f, 0) {
			fail("%.40s: %v", t, err)
		}
		return f
	}
	return t // nil or bool
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
