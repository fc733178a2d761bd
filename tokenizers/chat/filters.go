package chat

import (
	"slices"
	"strconv"
	"strings"
)

// filter is a function after |.
type filter func(r *run, v any, args []any, named *dict) any

var filters map[string]filter

// otherFilters are those of Jinja 3.1 that are not done; a template that reaches one is refused.
const otherFilters = " abs attr batch capitalize center filesizeformat forceescape format groupby " +
	"pprint random round slice striptags sum title truncate urlencode urlize wordcount wordwrap xmlattr "

func init() { // after tests and filters, which some look up
	filters = map[string]filter{
		"length": filterLength, "count": filterLength, "tojson": filterJSON, "trim": filterTrim,
		"string": ofText((*run).str), "escape": ofText((*run).markup), "e": ofText((*run).markup),
		"safe": ofText(func(r *run, v any) text {
			t := r.str(v)
			t.safe = true
			return t
		}),
		"items": filterItems, "join": filterJoin, "list": filterList, "replace": filterReplace,
		"unique": filterUnique, "map": filterMap, "dictsort": filterDictsort, "sort": filterSort,
		"default": filterDefault, "d": filterDefault, "first": filterFirst, "last": filterLast,
		"int": filterInt, "float": filterFloat, "reverse": filterReverse,
		"min": extreme("min"), "max": extreme("max"),
		"indent": filterIndent,
		"lower":  ofText(func(r *run, v any) text { return r.lower(r.str(v)) }),
		"upper":  ofText(func(r *run, v any) text { return r.upper(r.str(v)) }),
	}
	for _, name := range []string{"select", "reject", "selectattr", "rejectattr"} {
		filters[name] = func(r *run, v any, args []any, _ *dict) any {
			return selected(r, v, args, name)
		}
	}
}

// ofText returns the filter of a function that has no arguments.
func ofText(f func(*run, any) text) filter {
	return func(r *run, v any, _ []any, _ *dict) any { return f(r, v) }
}

// filterNamed returns a filter; one that is not done fails by its name.
func filterNamed(name string) filter {
	f := filters[name]
	switch {
	case f != nil:
	case strings.Contains(otherFilters, " "+name+" "):
		fail("filter %s is not done here", name)
	default:
		fail("filter %.40q is not known", name)
	}
	return f
}

// option returns the argument at index i or with a name.
func option(args []any, i int, named *dict, name string) (any, bool) {
	if i >= 0 && i < len(args) {
		return args[i], true
	}
	return named.get(text{s: name})
}

// isSet reports whether that argument is there and true.
func isSet(args []any, i int, named *dict, name string) bool {
	a, ok := option(args, i, named, name)
	return ok && truth(a)
}

// known returns an error for named arguments other than these.
func known(named *dict, filter string, names ...string) {
	for _, k := range named.keys {
		if !slices.Contains(names, k.(text).s) {
			fail("filter %s takes no argument %q", filter, k.(text).s)
		}
	}
}

func filterLength(r *run, v any, args []any, named *dict) any { return r.length(v) }

func filterJSON(r *run, v any, args []any, named *dict) any {
	known(named, "tojson", "ensure_ascii", "indent", "separators", "sort_keys")
	w := writer{run: r, b: builder{run: r}, json: true, item: text{s: ", "}, key: text{s: ": "},
		ascii: isSet(args, 0, named, "ensure_ascii"), sort: isSet(args, 3, named, "sort_keys")}
	if a, ok := option(args, 1, named, "indent"); ok && a != nil {
		t, is := a.(text)
		if !is {
			t = text{s: strings.Repeat(" ", int(min(max(r.index(a), 0), 64)))}
		}
		w.indent, w.item = &t, text{s: ","}
	}
	if a, ok := option(args, 2, named, "separators"); ok && a != nil {
		pair, is := a.(*list)
		if !is || len(pair.items) != 2 {
			fail("tojson: separators is %s, want two texts", typeName(a))
		}
		w.item, w.key = wantText(pair.items, 0, "tojson"), wantText(pair.items, 1, "tojson")
	}
	w.write(v, 0)
	return w.b.text()
}

func filterTrim(r *run, v any, args []any, named *dict) any {
	known(named, "trim", "chars")
	in := isSpace
	if a, ok := option(args, 0, named, "chars"); ok && a != nil {
		in = r.set(wantText([]any{a}, 0, "trim").s)
	}
	t := r.str(v)
	r.made(len(t.s))
	return t.strip(in, true, true)
}

func filterItems(r *run, v any, args []any, named *dict) any {
	switch v := v.(type) {
	case undefined:
		return &list{once: true}
	case *dict:
		l := r.pairs(v)
		l.once = true
		return l
	}
	fail("Can only get item pairs from a mapping.")
	return nil
}

func filterJoin(r *run, v any, args []any, named *dict) any {
	known(named, "join", "d", "attribute")
	sep := text{}
	if a, ok := option(args, 0, named, "d"); ok {
		sep = r.str(a)
	}
	items, get := r.items(v), r.attributeOf(args, 1, named)
	parts := make([]text, len(items))
	for i, item := range items {
		parts[i] = r.str(get(item))
	}
	return r.join(sep, parts)
}

func filterList(r *run, v any, args []any, named *dict) any {
	return r.newList(slices.Clone(r.items(v)))
}

func filterReplace(r *run, v any, args []any, named *dict) any {
	known(named, "replace", "old", "new", "count")
	old, ok := option(args, 0, named, "old")
	with, ok2 := option(args, 1, named, "new")
	if !ok || !ok2 {
		fail("filter replace takes two texts")
	}
	most := int64(-1)
	if a, ok := option(args, 2, named, "count"); ok && a != nil {
		most = r.index(a)
	}
	return r.replace(r.str(v), r.str(old), r.str(with), most)
}

// getter returns a function that reads a path such as a.b.0 of an item, as the filters' attribute
// does.
func (r *run) getter(attribute any) func(any) any {
	if n, _, whole, ok := number(attribute); ok && whole {
		return func(v any) any { return r.item(v, n) }
	}
	path := wantText([]any{attribute}, 0, "attribute")
	r.made(8 * len(path.s))
	parts := path.split(".", -1)
	return func(v any) any {
		for _, part := range parts {
			r.step(1)
			if n, err := strconv.ParseInt(part.s, 10, 64); err == nil && n >= 0 {
				v = r.item(v, n)
			} else {
				v = r.item(v, part)
			}
		}
		return v
	}
}

func filterMap(r *run, v any, args []any, named *dict) any {
	out := &list{once: true}
	if !truth(v) { // also none and false
		return out
	}
	var change func(any) any
	switch attribute, ok := named.get(text{s: "attribute"}); {
	case ok:
		known(named, "map", "attribute", "default")
		get := r.getter(attribute)
		otherwise, has := named.get(text{s: "default"})
		change = func(v any) any {
			v = get(v)
			if _, missing := v.(undefined); missing && has {
				return otherwise
			}
			return v
		}
	case len(args) > 0:
		name := wantText(args, 0, "map").s
		f := filterNamed(name)
		change = func(v any) any { return f(r, v, args[1:], named) }
	default:
		fail("map requires a filter argument")
	}
	for _, item := range r.items(v) {
		out.items = append(out.items, change(item))
	}
	r.made(16 * len(out.items))
	return out
}

// selected keeps the items, or with an attribute their attribute, for which a test is true, or
// false.
func selected(r *run, v any, args []any, name string) any {
	out := &list{once: true}
	if !truth(v) { // also none and false
		return out
	}
	get := func(v any) any { return v }
	if strings.HasSuffix(name, "attr") {
		if len(args) == 0 {
			fail("%s: missing parameter for attribute name", name)
		}
		get, args = r.getter(args[0]), args[1:]
	}
	holds := func(v any) bool { return truth(v) }
	if len(args) > 0 {
		test := wantText(args, 0, name).s
		f := testNamed(test)
		holds = func(v any) bool { return f(r, v, args[1:]) }
	}
	for _, item := range r.items(v) {
		if holds(get(item)) == strings.HasPrefix(name, "select") {
			out.items = append(out.items, item)
		}
	}
	r.made(16 * len(out.items))
	return out
}

func filterDefault(r *run, v any, args []any, named *dict) any {
	known(named, "default", "default_value", "boolean")
	otherwise, ok := option(args, 0, named, "default_value")
	if !ok {
		otherwise = text{}
	}
	if isSet(args, 1, named, "boolean") && !truth(v) {
		return otherwise
	}
	if _, missing := v.(undefined); missing {
		return otherwise
	}
	return v
}

func filterFirst(r *run, v any, args []any, named *dict) any {
	if l, ok := v.(*list); ok && l.once && len(l.items) > 0 { // the rest can still be read
		item := l.items[0]
		l.items = l.items[1:]
		return item
	}
	if items := r.items(v); len(items) > 0 {
		return items[0]
	}
	return undefined{"the first item of an empty sequence"}
}

func filterLast(r *run, v any, args []any, named *dict) any {
	if l, ok := v.(*list); ok && l.once {
		fail("a generator is not reversible")
	}
	if items := r.items(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return undefined{"the last item of an empty sequence"}
}

func filterReverse(r *run, v any, args []any, named *dict) any {
	items := slices.Clone(r.items(v))
	slices.Reverse(items)
	if _, ok := v.(text); ok {
		return r.together(items)
	}
	l := r.newList(items)
	l.once = true
	return l
}
