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
	r.key(name)
	if f := method(v, name.s); f != nil {
		return f
	}
	if t, ok := v.(*turn); ok {
		return t.field(name.s)
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

// item returns v[key] as Python does or, if key is a text, the attribute of that name.
func (r *run) item(v, key any) any {
	r.key(key)
	switch v := v.(type) {
	case undefined:
		v.fail()
	case *dict:
		if t, ok := key.(*list); !ok || t.tuple {
			if _, unhashable := key.(*dict); !unhashable {
				if field, ok := v.get(key); ok {
					return field
				}
			}
		}
	case *list, text:
		n, _, whole, ok := number(key)
		if l, is := v.(*list); ok && whole && (!is || !l.once) {
			length := r.length(v)
			if n < 0 {
				n += length
			}
			if n >= 0 && n < length {
				if is {
					return l.items[n]
				}
				return r.runes(v.(text))[n]
			}
		}
	}
	if name, ok := key.(text); ok {
		return r.attribute(v, name)
	}
	return undefined{objectName(v) + " has no element " + r.repr(key).s + ", so it"}
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
	case isList && !l.once:
		items = l.items
	case isText:
		items = r.items(whole)
	default:
		return undefined{objectName(v) + " has no slices, so it"}
	}
	n := int64(len(items))
	step := int64(1)
	if parts[2] != nil {
		step = r.index(parts[2])
	}
	if step == 0 {
		fail("slice step cannot be zero")
	}
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	bound := func(p any, otherwise int64) int64 {
		if p == nil {
			return otherwise
		}
		i := r.index(p)
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	start, stop := bound(parts[0], low), bound(parts[1], high)
	if step < 0 {
		start, stop = bound(parts[0], high), bound(parts[1], low)
	}
	var out []any
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, items[i])
		if step > n || -step > n {
			break // the next one is out of range
		}
	}
	if isText {
		t := r.together(out)
		t.safe = whole.safe
		return t
	}
	made := r.newList(out)
	made.tuple = l.tuple
	return made
}

// together returns the text of a text's runes.
func (r *run) together(runes []any) text {
	b := builder{run: r}
	for _, one := range runes {
		b.add(one.(text))
	}
	return b.text()
}

func (r *run) index(v any) int64 {
	n, _, whole, ok := number(v)
	if !ok || !whole {
		fail("slice indices must be integers or None, found %s", typeName(v))
	}
	return n
}

// method returns v's method of this name, nil if it has none. Python's methods that are not
// supported are errors, so that nobody takes them for missing keys.
func method(v any, name string) any {
	var of map[string]methodOf
	var missing string
	switch v.(type) {
	case text:
		of, missing = textMethods, " capitalize casefold center count encode expandtabs format_map index isalnum "+
			"isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle "+
			"isupper ljust maketrans partition removeprefix removesuffix rfind rindex rjust rpartition "+
			"rsplit splitlines swapcase title translate zfill "
	case *dict:
		of, missing = dictMethods, " clear copy fromkeys pop popitem setdefault update "
	case *list:
		missing = " append clear copy count extend index insert pop remove reverse sort "
	case *function:
		missing = " arguments caller catch_kwargs catch_varargs explicit_caller name "
	case int64, bool, float64:
		missing = " as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex " +
			"imag is_integer numerator real to_bytes "
	}
	if m, ok := of[name]; ok {
		return &function{name, func(r *run, args []any, named *dict) any {
			for _, k := range named.keys {
				if !strings.Contains(namedArguments[name], " "+k.(text).s+" ") && name != "format" {
					fail("%s takes no keyword argument %q", name, k.(text).s)
				}
			}
			want(args, m.least, m.most, name)
			return m.call(r, v, args, named)
		}}
	}
	if strings.Contains(missing, " "+name+" ") {
		fail("method %s of %s is not known here", name, typeName(v))
	}
	return nil
}

// namedArguments are the arguments of methods that may have their names.
var namedArguments = map[string]string{"split": " sep maxsplit "}

// methodOf is a method, with how many arguments it has.
type methodOf struct {
	least, most int
	call        func(r *run, v any, args []any, named *dict) any
}

// bare is a method that has no arguments.
func bare[T any](f func(*run, T) any) methodOf {
	return methodOf{call: func(r *run, v any, _ []any, _ *dict) any { return f(r, v.(T)) }}
}

var dictMethods = map[string]methodOf{
	"get": {1, 2, func(r *run, v any, args []any, _ *dict) any {
		if field, ok := v.(*dict).get(r.key(args[0])); ok {
			return field
		}
		if len(args) == 2 {
			return args[1]
		}
		return nil
	}},
	"items":  bare(func(r *run, d *dict) any { return viewed(r.pairs(d), "dict_items") }),
	"keys":   bare(func(r *run, d *dict) any { return viewed(r.newList(d.keys), "dict_keys") }),
	"values": bare(func(r *run, d *dict) any { return viewed(r.newList(d.values), "dict_values") }),
}

// viewed returns l as a view of a dict, or a range, by which name it is written.
func viewed(l *list, name string) *list {
	l.view = name
	return l
}

// pairs returns a list of the key and the value of each entry.
func (r *run) pairs(d *dict) *list {
	var items []any
	for i, k := range d.keys {
		pair := r.newList([]any{k, d.values[i]})
		pair.tuple = true
		items = append(items, pair)
	}
	return r.newList(items)
}

// want checks the number of arguments of a function.
func want(args []any, least, most int, name string) {
	if len(args) < least || len(args) > most {
		fail("%s is given %d arguments, want %d to %d", name, len(args), least, most)
	}
}

// wantText returns argument i as a text.
func wantText(args []any, i int, name string) text {
	t, ok := args[i].(text)
	if !ok {
		fail("%s is given %s, want a text", name, typeName(args[i]))
	}
	return t
}

var textMethods = map[string]methodOf{
	"strip":      stripper("strip", true, true),
	"lstrip":     stripper("lstrip", true, false),
	"rstrip":     stripper("rstrip", false, true),
	"startswith": affix("startswith", strings.HasPrefix),
	"endswith":   affix("endswith", strings.HasSuffix),
	"split":      {0, 2, methodSplit},
	"format": {0, math.MaxInt, func(r *run, v any, args []any, named *dict) any {
		return r.format(v.(text), args, named)
	}},
	"replace": {2, 3, func(r *run, v any, args []any, _ *dict) any {
		most := int64(-1)
		if len(args) == 3 {
			most = r.index(args[2])
		}
		return r.replace(v.(text), wantText(args, 0, "replace"), wantText(args, 1, "replace"), most)
	}},
	"lower": bare(func(r *run, t text) any { return r.lower(t) }),
	"upper": bare(func(r *run, t text) any { return r.upper(t) }),
	"join": {1, 1, func(r *run, v any, args []any, _ *dict) any {
		var parts []text
		for _, item := range r.items(args[0]) {
			parts = append(parts, wantText([]any{item}, 0, "join"))
		}
		return r.join(v.(text), parts)
	}},
	"find": {1, 1, func(r *run, v any, args []any, _ *dict) any {
		s := v.(text).s
		r.touch(2 * len(s))
		at := strings.Index(s, wantText(args, 0, "find").s)
		if at > 0 {
			at = utf8.RuneCountInString(s[:at])
		}
		return int64(at)
	}},
}

// set returns whether a rune is one of chars.
func (r *run) set(chars string) func(rune) bool {
	r.made(8 * len(chars))
	in := make(map[rune]bool, min(len(chars), 1<<16))
	for _, c := range chars {
		in[c] = true
	}
	return func(c rune) bool { return in[c] }
}

func stripper(name string, left, right bool) methodOf {
	return methodOf{0, 1, func(r *run, v any, args []any, _ *dict) any {
		in := isSpace
		if len(args) == 1 && args[0] != nil {
			in = r.set(wantText(args, 0, name).s)
		}
		r.made(len(v.(text).s))
		return v.(text).strip(in, left, right)
	}}
}

// methodSplit divides a text by a separator, or at white space.
func methodSplit(r *run, v any, args []any, named *dict) any {
	r.made(len(v.(text).s))
	if _, ok := named.get(text{s: "sep"}); ok && len(args) > 0 {
		fail("split is given two separators")
	}
	most := int64(-1)
	if a, ok := option(args, 1, named, "maxsplit"); ok {
		if most = r.index(a); most < 0 || most > maxMade {
			most = -1
		}
	}
	sep, ok := option(args, 0, named, "sep")
	if !ok || sep == nil {
		return r.texts(v.(text).fields(int(most)))
	}
	by := wantText([]any{sep}, 0, "split")
	if by.s == "" {
		fail("empty separator")
	}
	return r.texts(v.(text).split(by.s, int(most)))
}

// texts returns a list of texts.
func (r *run) texts(parts []text) *list {
	items := make([]any, len(parts))
	for i, p := range parts {
		items[i] = p
	}
	return r.newList(items)
}

// affix reports whether a text has a prefix or suffix, or any of a tuple of them.
func affix(name string, has func(string, string) bool) methodOf {
	return methodOf{1, 1, func(r *run, v any, args []any, _ *dict) any {
		s, affixes := v.(text).s, args
		if l, ok := args[0].(*list); ok && l.tuple {
			r.touch(len(s))
			affixes = l.items
		}
		for i := range affixes {
			if r.touch(len(s)); has(s, wantText(affixes, i, name).s) {
				return true
			}
		}
		return false
	}}
}

// replace replaces old by with, at most `most` times (below 0: any number). An empty old is found
// before each rune and at the end.
func (r *run) replace(t, old, with text, most int64) text {
	if old.s != "" {
		return r.join(with, t.split(old.s, int(min(most, maxMade))))
	}
	b := builder{run: r}
	for _, one := range append(r.runes(t), text{}) {
		if most != 0 {
			b.add(with)
			most--
		}
		b.add(one)
	}
	return b.text()
}
