package chat

import (
	"math"
	"strings"
	"unicode/utf8"
)

// attribute returns v.name: a method, a field of a namespace, or a key of a dict, in Python's
// order.
func (r *run) attribute(v any, name text) any {
	if u, ok := v.(undefined); ok {
		u.fail()
	}
	r.countKey(name)
	if f := findMethod(v, name.s); f != nil {
		return f
	}
	if t, ok := v.(*iteration); ok {
		return t.attribute(name.s)
	}
	if ns, ok := v.(*namespace); ok {
		if field, ok := ns.fields.get(name); ok {
			return field
		}
	}
	if d, ok := v.(*dict); ok {
		if field, ok := d.get(name); ok {
			return field
		}
	}
	return undefined{"'" + objectName(v) + "' has no attribute '" + name.s + "', so it"}
}

// objectName returns the name of v in Jinja's errors.
func objectName(v any) string {
	if v == nil {
		return "None"
	}
	return typeName(v) + " object"
}

// item returns v[key] as Python does or, if key is a text, the attribute of that name. Jinja does
// the same, so that m['role'] and m.role are one.
func (r *run) item(v, key any) any {
	r.countKey(key)
	switch v := v.(type) {
	case undefined:
		v.fail()
	case *dict:
		if isHashable(key) {
			if field, ok := v.get(key); ok {
				return field
			}
		}
	case *list:
		if !v.isGenerator {
			if i, ok := elementIndex(key, r.length(v)); ok {
				return v.items[i]
			}
		}
	case text:
		if _, _, isWhole, _ := asNumber(key); isWhole {
			if i, ok := elementIndex(key, r.length(v)); ok {
				return r.splitRunes(v)[i]
			}
		}
	}
	if name, ok := key.(text); ok {
		return r.attribute(v, name)
	}
	return undefined{objectName(v) + " has no element " + r.pythonRepr(key).s + ", so it"}
}

// isHashable reports whether Python looks up a key in a dict: not a list or a dict.
func isHashable(key any) bool {
	switch key := key.(type) {
	case *list:
		return key.isTuple
	case *dict:
		return false
	}
	return true
}

// elementIndex returns the index that a key means in a sequence, where negative ones count from the
// end. ok is false if the key is no whole number or out of range.
func elementIndex(key any, length int64) (i int64, ok bool) {
	i, _, isWhole, _ := asNumber(key)
	if !isWhole {
		return 0, false
	}
	if i < 0 {
		i += length
	}
	return i, i >= 0 && i < length
}

// slice returns v[start:stop:step] of a list, tuple or text, and undefined for anything else.
func (r *run) slice(v any, parts [3]any) any {
	if u, ok := v.(undefined); ok {
		u.fail()
	}
	var items []any
	whole, isText := v.(text)
	l, isList := v.(*list)
	switch {
	case isList && !l.isGenerator:
		items = l.items
	case isText:
		items = r.iterate(whole)
	default:
		return undefined{objectName(v) + " has no slices, so it"}
	}
	n := int64(len(items))
	step := int64(1)
	if parts[2] != nil {
		step = r.asIndex(parts[2])
	}
	if step == 0 {
		fail("slice step cannot be zero")
	}
	low := int64(0)
	high := n
	if step < 0 {
		low = -1
		high = n - 1
	}
	bound := func(p any, otherwise int64) int64 {
		if p == nil {
			return otherwise
		}
		i := r.asIndex(p)
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	first := low
	last := high
	if step < 0 {
		first, last = last, first
	}
	start := bound(parts[0], first)
	stop := bound(parts[1], last)
	var out []any
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, items[i])
		if step > n || -step > n {
			break // the next one is out of range
		}
	}
	if isText {
		t := r.joinRunes(out)
		t.safe = whole.safe
		return t
	}
	part := r.newList(out)
	part.isTuple = l.isTuple
	return part
}

// joinRunes returns the text of a text's runes.
func (r *run) joinRunes(runes []any) text {
	b := builder{run: r}
	for _, character := range runes {
		b.add(character.(text))
	}
	return b.text()
}

// asIndex returns a whole number, and fails for what is none.
func (r *run) asIndex(v any) int64 {
	n, _, whole, ok := asNumber(v)
	if !ok || !whole {
		fail("slice indices must be integers or None, found %s", typeName(v))
	}
	return n
}

// findMethod returns v's method of this name, nil if it has none. Python's methods that are not
// supported are errors, so that nobody takes them for missing keys.
func findMethod(v any, name string) any {
	var methods map[string]method
	var unsupported string
	switch v.(type) {
	case text:
		methods = textMethods
		unsupported = unsupportedTextMethods
	case *dict:
		methods = dictMethods
		unsupported = " clear copy fromkeys pop popitem setdefault update "
	case *list:
		unsupported = " append clear copy count extend index insert pop remove reverse sort "
	case *function:
		unsupported = " arguments caller catch_kwargs catch_varargs explicit_caller name "
	case int64, bool, float64:
		unsupported = " as_integer_ratio bit_count bit_length conjugate denominator from_bytes " +
			"fromhex hex imag is_integer numerator real to_bytes "
	}
	if m, ok := methods[name]; ok {
		return &function{name, func(r *run, args []any, named *dict) any {
			for _, k := range named.keys {
				if !strings.Contains(namedArguments[name], " "+k.(text).s+" ") && name != "format" {
					fail("%s takes no keyword argument %q", name, k.(text).s)
				}
			}
			checkArgCount(args, m.minArgs, m.maxArgs, name)
			return m.call(r, v, args, named)
		}}
	}
	if strings.Contains(unsupported, " "+name+" ") {
		fail("method %s of %s is not supported", name, typeName(v))
	}
	return nil
}

const unsupportedTextMethods = " capitalize casefold center count encode expandtabs format_map index " +
	"isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace " +
	"istitle isupper ljust maketrans partition removeprefix removesuffix rfind rindex rjust " +
	"rpartition rsplit splitlines swapcase title translate zfill "

// namedArguments are the arguments of methods that may be given by their names.
var namedArguments = map[string]string{"split": " sep maxsplit "}

// method is a method of a value, with how many arguments it has.
type method struct {
	minArgs, maxArgs int
	call             func(r *run, v any, args []any, named *dict) any
}

// withoutArgs returns the method of a function that has no arguments.
func withoutArgs[T any](f func(*run, T) any) method {
	return method{call: func(r *run, v any, _ []any, _ *dict) any { return f(r, v.(T)) }}
}

var dictMethods = map[string]method{
	"get": {1, 2, func(r *run, v any, args []any, _ *dict) any {
		if field, ok := v.(*dict).get(r.countKey(args[0])); ok {
			return field
		}
		if len(args) == 2 {
			return args[1]
		}
		return nil
	}},
	"items": withoutArgs(func(r *run, d *dict) any { return asView(r.pairsOf(d), "dict_items") }),
	"keys":  withoutArgs(func(r *run, d *dict) any { return asView(r.newList(d.keys), "dict_keys") }),
	"values": withoutArgs(func(r *run, d *dict) any {
		return asView(r.newList(d.values), "dict_values")
	}),
}

// asView returns l as a view of a dict, or a range, by which name it is written.
func asView(l *list, name string) *list {
	l.viewName = name
	return l
}

// pairsOf returns a list of the key and the value of each entry.
func (r *run) pairsOf(d *dict) *list {
	var items []any
	for i, k := range d.keys {
		pair := r.newList([]any{k, d.values[i]})
		pair.isTuple = true
		items = append(items, pair)
	}
	return r.newList(items)
}

// checkArgCount checks the number of arguments of a function.
func checkArgCount(args []any, minCount, maxCount int, name string) {
	if len(args) < minCount || len(args) > maxCount {
		fail("%s is given %d arguments, want %d to %d", name, len(args), minCount, maxCount)
	}
}

// textArg returns argument i as a text.
func textArg(args []any, i int, name string) text {
	t, ok := args[i].(text)
	if !ok {
		fail("%s is given %s, want a text", name, typeName(args[i]))
	}
	return t
}

var textMethods = map[string]method{
	"strip":      stripMethod("strip", true, true),
	"lstrip":     stripMethod("lstrip", true, false),
	"rstrip":     stripMethod("rstrip", false, true),
	"startswith": affixMethod("startswith", strings.HasPrefix),
	"endswith":   affixMethod("endswith", strings.HasSuffix),
	"split":      {0, 2, splitMethod},
	"format": {0, math.MaxInt, func(r *run, v any, args []any, named *dict) any {
		return r.formatText(v.(text), args, named)
	}},
	"replace": {2, 3, func(r *run, v any, args []any, _ *dict) any {
		limit := int64(-1)
		if len(args) == 3 {
			limit = r.asIndex(args[2])
		}
		return r.replace(v.(text), textArg(args, 0, "replace"), textArg(args, 1, "replace"), limit)
	}},
	"lower": withoutArgs(func(r *run, t text) any { return r.lower(t) }),
	"upper": withoutArgs(func(r *run, t text) any { return r.upper(t) }),
	"join": {1, 1, func(r *run, v any, args []any, _ *dict) any {
		var parts []text
		for _, item := range r.iterate(args[0]) {
			parts = append(parts, textArg([]any{item}, 0, "join"))
		}
		return r.join(v.(text), parts)
	}},
	"find": {1, 1, func(r *run, v any, args []any, _ *dict) any {
		s := v.(text).s
		r.countRead(2 * len(s))
		i := strings.Index(s, textArg(args, 0, "find").s)
		if i > 0 {
			i = utf8.RuneCountInString(s[:i])
		}
		return int64(i)
	}},
}

// runeSet returns a function that reports whether a rune is one of chars.
func (r *run) runeSet(chars string) func(rune) bool {
	r.countMade(8 * len(chars))
	in := make(map[rune]bool, min(len(chars), 1<<16))
	for _, c := range chars {
		in[c] = true
	}
	return func(c rune) bool { return in[c] }
}

// stripMethod is strip and its relatives, which remove runes from the ends of a text.
func stripMethod(name string, left, right bool) method {
	return method{0, 1, func(r *run, v any, args []any, _ *dict) any {
		in := isSpace
		if len(args) == 1 && args[0] != nil {
			in = r.runeSet(textArg(args, 0, name).s)
		}
		r.countMade(len(v.(text).s))
		return v.(text).strip(in, left, right)
	}}
}

// splitMethod divides a text by a separator, or at white space.
func splitMethod(r *run, v any, args []any, named *dict) any {
	r.countMade(len(v.(text).s))
	if _, ok := named.get(text{s: "sep"}); ok && len(args) > 0 {
		fail("split is given two separators")
	}
	limit := int64(-1)
	if a, ok := argument(args, 1, named, "maxsplit"); ok {
		limit = r.asIndex(a)
		if limit < 0 || limit > maxMade {
			limit = -1
		}
	}
	sep, ok := argument(args, 0, named, "sep")
	if !ok || sep == nil {
		return r.textList(v.(text).splitSpace(int(limit)))
	}
	separator := textArg([]any{sep}, 0, "split").s
	if separator == "" {
		fail("empty separator")
	}
	return r.textList(v.(text).split(separator, int(limit)))
}

// textList returns a list of texts.
func (r *run) textList(parts []text) *list {
	items := make([]any, len(parts))
	for i, p := range parts {
		items[i] = p
	}
	return r.newList(items)
}

// affixMethod returns the method that reports whether a text has a prefix or suffix, or any of a
// tuple of them.
func affixMethod(name string, has func(string, string) bool) method {
	return method{1, 1, func(r *run, v any, args []any, _ *dict) any {
		s := v.(text).s
		affixes := args
		if l, ok := args[0].(*list); ok && l.isTuple {
			r.countRead(len(s))
			affixes = l.items
		}
		for i := range affixes {
			r.countRead(len(s))
			if has(s, textArg(affixes, i, name).s) {
				return true
			}
		}
		return false
	}}
}

// replace replaces old by replacement, at most limit times (below 0: any number). An empty old is
// found before each rune and at the end.
func (r *run) replace(t, old, replacement text, limit int64) text {
	if old.s != "" {
		return r.join(replacement, t.split(old.s, int(min(limit, maxMade))))
	}
	b := builder{run: r}
	for _, character := range append(r.splitRunes(t), text{}) {
		if limit != 0 {
			b.add(replacement)
			limit--
		}
		b.add(character)
	}
	return b.text()
}
