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

// pythonStr returns Python's str(v), which is how a template writes v.
func (r *run) pythonStr(v any) text {
	switch v := v.(type) {
	case text:
		return v
	case undefined:
		return text{}
	}
	return r.pythonRepr(v)
}

// pythonRepr returns Python's repr(v).
func (r *run) pythonRepr(v any) text {
	w := newWriter(r)
	w.write(v, 0)
	return w.out.text()
}

// writer writes values as Python's repr or as its json.dumps.
type writer struct {
	run *run
	out builder

	// asJSON chooses json.dumps, of which asciiOnly and sortKeys are options.
	asJSON    bool
	asciiOnly bool
	sortKeys  bool

	// indent is that of each level; nil writes one line.
	indent *text

	itemSeparator text
	keySeparator  text
}

// newWriter returns a writer of Python's repr.
func newWriter(r *run) writer {
	return writer{
		run:           r,
		out:           builder{run: r},
		itemSeparator: text{s: ", "},
		keySeparator:  text{s: ": "},
	}
}

// write writes a value; level is how many lists and dictionaries it is in, which indents it.
func (w *writer) write(v any, level int) {
	defer w.run.nest()()
	word := func(repr, json string) {
		if w.asJSON {
			repr = json
		}
		w.out.addString(repr, false)
	}
	switch v := v.(type) {
	case nil:
		word("None", "null")
	case bool:
		word(map[bool]string{true: "True", false: "False"}[v], strconv.FormatBool(v))
	case int64:
		w.out.addString(strconv.FormatInt(v, 10), false)
	case json.Number:
		w.out.addString(string(v), false)
	case float64:
		word(formatFloat(v, "inf", "nan"), formatFloat(v, "Infinity", "NaN"))
	case text:
		if w.asJSON {
			w.run.writeJSONText(&w.out, v, w.asciiOnly)
		} else {
			w.run.writeReprText(&w.out, v)
		}
	case *list:
		w.writeList(v, level)
	case *dict:
		w.writeDict(v, level)
	default:
		w.writeOther(v, level)
	}
}

// writeOther writes values that JSON does not have.
func (w *writer) writeOther(v any, level int) {
	if w.asJSON {
		fail("Object of type %s is not JSON serializable", typeName(v))
	}
	switch v := v.(type) {
	case *namespace:
		w.out.addString("<Namespace ", false)
		w.write(v.fields, level)
		w.out.addString(">", false)
	case undefined:
		w.out.addString("Undefined", false)
	default:
		fail("a %s cannot be written", typeName(v))
	}
}

// writeList writes a list, a tuple, or a view by its name, as Python's repr does. In JSON lists and
// tuples are the same.
func (w *writer) writeList(l *list, level int) {
	open := "["
	end := "]"
	switch {
	case w.asJSON && (l.isGenerator || l.viewName != ""):
		w.writeOther(l, level)
	case w.asJSON:
	case l.isGenerator:
		fail("a generator cannot be written")
	case strings.HasPrefix(l.viewName, "range"):
		w.out.addString(l.viewName, false)
		return
	case l.viewName != "":
		open = l.viewName + "(["
		end = "])"
	case l.isTuple && len(l.items) == 1:
		open = "("
		end = ",)"
	case l.isTuple:
		open = "("
		end = ")"
	}
	w.writeItems(open, end, len(l.items), level, func(i int) { w.write(l.items[i], level+1) })
}

// writeDict writes a dictionary, in the order of its keys or sorted by them.
func (w *writer) writeDict(d *dict, level int) {
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if w.sortKeys {
		slices.SortStableFunc(order, func(a, b int) int {
			return w.run.compareValues(d.keys[a], d.keys[b])
		})
	}
	w.writeItems("{", "}", len(order), level, func(n int) {
		key := d.keys[order[n]]
		if w.asJSON {
			w.run.writeJSONText(&w.out, w.run.jsonKeyText(key), w.asciiOnly)
		} else {
			w.write(key, level+1)
		}
		w.out.add(w.keySeparator)
		w.write(d.values[order[n]], level+1)
	})
}

// writeItems writes n items with what separates them, indented where that is wanted.
func (w *writer) writeItems(open, end string, n, level int, item func(i int)) {
	newLine := func(level int) {
		if w.indent != nil {
			w.out.addString("\n", false)
			for range level {
				w.out.add(*w.indent)
			}
		}
	}
	w.out.addString(open, false)
	for i := range n {
		if i > 0 {
			w.out.add(w.itemSeparator)
		}
		newLine(level + 1)
		item(i)
	}
	if n > 0 {
		newLine(level)
	}
	w.out.addString(end, false)
}

// writeReprText writes Python's repr of a text: in single quotes unless it has these and no double
// ones.
func (r *run) writeReprText(b *builder, t text) {
	quote := "'"
	if strings.Contains(t.s, "'") && !strings.Contains(t.s, `"`) {
		quote = `"`
	}
	b.addString(quote, false)
	for _, t := range r.splitRunes(t) {
		c, _ := utf8.DecodeRuneInString(t.s)
		b.addString(reprRune(c, quote), len(t.user) > 0)
	}
	b.addString(quote, false)
}

// reprRune returns a character as Python's repr writes it between quotes.
func reprRune(c rune, quote string) string {
	i := strings.IndexRune("\n\r\t", c)
	switch {
	case string(c) == quote, c == '\\':
		return `\` + string(c)
	case i >= 0:
		return `\` + "nrt"[i:i+1]
	case unicode.IsPrint(c):
		return string(c)
	}
	return escapeByNumber(c)
}

// escapeByNumber returns Python's escape of a character by its number.
func escapeByNumber(c rune) string {
	switch {
	case c < 0x100:
		return fmt.Sprintf(`\x%02x`, c)
	case c < 0x10000:
		return fmt.Sprintf(`\u%04x`, c)
	}
	return fmt.Sprintf(`\U%08x`, c)
}

// formatFloat returns v as Python's repr does: the fewest digits that read back the same.
func formatFloat(v float64, infinity, nan string) string {
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

// jsonKeyText returns the text that json.dumps writes for a key.
func (r *run) jsonKeyText(k any) text {
	switch k := k.(type) {
	case text:
		return k
	case nil:
		return text{s: "null"}
	case bool:
		return text{s: strconv.FormatBool(k)}
	}
	return r.pythonRepr(k)
}

// writeJSONText writes a text as a JSON string. Each escape belongs to the conversation if the
// character that it stands for does.
func (r *run) writeJSONText(b *builder, t text, ascii bool) {
	b.addString(`"`, false)
	start := 0 // start of the text that needs no escape
	flush := func(end int) {
		if start < end {
			b.add(t.slice(start, end))
		}
	}
	for i, c := range t.s {
		needsBackslash := c == '"' || c == '\\'
		if !needsBackslash && c >= 0x20 && (c <= 0x7f || !ascii) {
			continue
		}
		flush(i)
		start = i + utf8.RuneLen(c)
		user := len(t.slice(i, start).user) > 0
		if needsBackslash { // the character itself follows it
			start = i
			b.addString(`\`, user)
			continue
		}
		b.addString(escapeJSON(c), user)
	}
	flush(len(t.s))
	b.addString(`"`, false)
}

// escapeJSON returns the escape of a character, two of them for one beyond 16 bits.
func escapeJSON(c rune) string {
	if i := strings.IndexRune("\n\r\t\b\f", c); i >= 0 {
		return `\` + "nrtbf"[i:i+1]
	}
	if c > 0xffff {
		high, low := utf16.EncodeRune(c)
		return escapeJSON(high) + escapeJSON(low)
	}
	return fmt.Sprintf(`\u%04x`, c)
}

// parseJSON reads a value of the conversation; all its texts, also keys, count as user input.
func parseJSON(data []byte) (v any, err error) {
	defer recoverFailure(&err)
	if err := jsonline.CheckUTF8(data); err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	v = readJSONValue(d, 0)
	if _, err := d.Token(); err != io.EOF {
		fail("byte %d: more than one value", d.InputOffset())
	}
	return v, jsonline.CheckPairs(data)
}

// nextJSONToken reads the next token.
func nextJSONToken(d *json.Decoder) json.Token {
	t, err := d.Token()
	if err != nil {
		fail("byte %d: %v", d.InputOffset(), err)
	}
	return t
}

// readJSONValue reads a value at a depth.
func readJSONValue(d *json.Decoder, depth int) any {
	t := nextJSONToken(d)
	if depth > maxDepth {
		fail("byte %d: nested deeper than %d", d.InputOffset(), maxDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			l := &list{}
			for d.More() {
				l.items = append(l.items, readJSONValue(d, depth+1))
			}
			nextJSONToken(d)
			return l
		}
		o := newDict()
		for d.More() {
			key := nextJSONToken(d).(string)
			o.set(userText(key), readJSONValue(d, depth+1))
		}
		nextJSONToken(d)
		return o
	case string:
		return userText(t)
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

// recoverFailure turns a failure into an error; other panics continue.
func recoverFailure(err *error) {
	switch v := recover().(type) {
	case nil:
	case failure:
		*err = v
	default:
		panic(v)
	}
}

func (f failure) Error() string { return f.message }
