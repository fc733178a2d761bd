package chat

import (
	"slices"
	"strconv"
	"strings"
)

// filter is a function after |.
type filterFunc func(r *run, v any, args []any, named *dict) any

var filters map[string]filterFunc

// unsupportedFilters are those of Jinja 3.1 that are not supported; a template that reaches one is
// refused. They have names here so that a template that asks whether one exists hears that it does.
const unsupportedFilters = " abs attr batch capitalize center filesizeformat forceescape format groupby " +
	"pprint random round slice striptags sum title truncate urlencode urlize wordcount wordwrap xmlattr "

func init() { // after tests and filters, which some look up
	filters = map[string]filterFunc{
		"d":        filterDefault,
		"default":  filterDefault,
		"dictsort": filterDictsort,
		"e":        textFilter((*run).escapeHTML),
		"escape":   textFilter((*run).escapeHTML),
		"first":    filterFirst,
		"float":    filterFloat,
		"indent":   filterIndent,
		"int":      filterInt,
		"items":    filterItems,
		"join":     filterJoin,
		"last":     filterLast,
		"length":   filterLength,
		"count":    filterLength,
		"list":     filterList,
		"lower":    textFilter(func(r *run, v any) text { return r.lower(r.pythonStr(v)) }),
		"map":      filterMap,
		"max":      extremeFilter("max"),
		"min":      extremeFilter("min"),
		"replace":  filterReplace,
		"reverse":  filterReverse,
		"safe": textFilter(func(r *run, v any) text {
			t := r.pythonStr(v)
			t.safe = true
			return t
		}),
		"sort":   filterSort,
		"string": textFilter((*run).pythonStr),
		"tojson": filterJSON,
		"trim":   filterTrim,
		"unique": filterUnique,
		"upper":  textFilter(func(r *run, v any) text { return r.upper(r.pythonStr(v)) }),
	}
	for _, name := range []string{"select", "reject", "selectattr", "rejectattr"} {
		filters[name] = func(r *run, v any, args []any, _ *dict) any {
			return selectItems(r, v, args, name)
		}
	}
}

// textFilter returns the filter of a function that has no arguments.
func textFilter(f func(*run, any) text) filterFunc {
	return func(r *run, v any, _ []any, _ *dict) any { return f(r, v) }
}

// findFilter returns a filter; one that is not supported fails by its name.
func findFilter(name string) filterFunc {
	f := filters[name]
	switch {
	case f != nil:
	case strings.Contains(unsupportedFilters, " "+name+" "):
		fail("filter %s is not supported", name)
	default:
		fail("filter %.40q is not known", name)
	}
	return f
}

// argument returns the argument at index i or with a name.
func argument(args []any, i int, named *dict, name string) (any, bool) {
	if i >= 0 && i < len(args) {
		return args[i], true
	}
	return named.get(text{s: name})
}

// argumentIsTrue reports whether that argument is there and true.
func argumentIsTrue(args []any, i int, named *dict, name string) bool {
	a, ok := argument(args, i, named, name)
	return ok && isTrue(a)
}

// checkNamedArgs fails for named arguments other than these.
func checkNamedArgs(named *dict, filter string, names ...string) {
	for _, k := range named.keys {
		if !slices.Contains(names, k.(text).s) {
			fail("filter %s takes no argument %q", filter, k.(text).s)
		}
	}
}

// filterLength is Jinja's length and count.
func filterLength(r *run, v any, args []any, named *dict) any { return r.length(v) }

// filterJSON is Jinja's tojson as transformers replaces it: json.dumps without escapes for HTML.
func filterJSON(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "tojson", "ensure_ascii", "indent", "separators", "sort_keys")
	w := newWriter(r)
	w.asJSON = true
	w.asciiOnly = argumentIsTrue(args, 0, named, "ensure_ascii")
	w.sortKeys = argumentIsTrue(args, 3, named, "sort_keys")
	if a, ok := argument(args, 1, named, "indent"); ok && a != nil {
		t, isText := a.(text)
		if !isText {
			t = text{s: strings.Repeat(" ", int(min(max(r.asIndex(a), 0), 64)))}
		}
		w.indent = &t
		w.itemSeparator = text{s: ","}
	}
	if a, ok := argument(args, 2, named, "separators"); ok && a != nil {
		pair, isText := a.(*list)
		if !isText || len(pair.items) != 2 {
			fail("tojson: separators is %s, want two texts", typeName(a))
		}
		w.itemSeparator = textArg(pair.items, 0, "tojson")
		w.keySeparator = textArg(pair.items, 1, "tojson")
	}
	w.write(v, 0)
	return w.out.text()
}

// filterTrim removes white space, or the given characters, from both ends.
func filterTrim(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "trim", "chars")
	in := isSpace
	if a, ok := argument(args, 0, named, "chars"); ok && a != nil {
		in = r.runeSet(textArg([]any{a}, 0, "trim").s)
	}
	t := r.pythonStr(v)
	r.countMade(len(t.s))
	return t.strip(in, true, true)
}

// filterItems returns the pairs of a dict.
func filterItems(r *run, v any, args []any, named *dict) any {
	switch v := v.(type) {
	case undefined:
		return &list{isGenerator: true}
	case *dict:
		l := r.pairsOf(v)
		l.isGenerator = true
		return l
	}
	fail("Can only get item pairs from a mapping.")
	return nil
}

// filterJoin joins items, or an attribute of them, as texts.
func filterJoin(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "join", "d", "attribute")
	sep := text{}
	if a, ok := argument(args, 0, named, "d"); ok {
		sep = r.pythonStr(a)
	}
	items := r.iterate(v)
	get := r.attributeArg(args, 1, named)
	parts := make([]text, len(items))
	for i, item := range items {
		parts[i] = r.pythonStr(get(item))
	}
	return r.join(sep, parts)
}

// filterList makes a list of a text's characters, a dict's keys or another sequence.
func filterList(r *run, v any, args []any, named *dict) any {
	return r.newList(slices.Clone(r.iterate(v)))
}

// filterReplace replaces a text in a text.
func filterReplace(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "replace", "old", "new", "count")
	old, hasOld := argument(args, 0, named, "old")
	replacement, hasNew := argument(args, 1, named, "new")
	if !hasOld || !hasNew {
		fail("filter replace takes two texts")
	}
	limit := int64(-1)
	if a, ok := argument(args, 2, named, "count"); ok && a != nil {
		limit = r.asIndex(a)
	}
	return r.replace(r.pythonStr(v), r.pythonStr(old), r.pythonStr(replacement), limit)
}

// attributeGetter returns a function that reads a path such as a.b.0 of an item, as the filters'
// attribute does.
func (r *run) attributeGetter(attribute any) func(any) any {
	if n, _, whole, ok := asNumber(attribute); ok && whole {
		return func(v any) any { return r.item(v, n) }
	}
	path := textArg([]any{attribute}, 0, "attribute")
	r.countMade(8 * len(path.s))
	parts := path.split(".", -1)
	return func(v any) any {
		for _, part := range parts {
			r.countSteps(1)
			if n, err := strconv.ParseInt(part.s, 10, 64); err == nil && n >= 0 {
				v = r.item(v, n)
			} else {
				v = r.item(v, part)
			}
		}
		return v
	}
}

// filterMap returns the attribute of each item, or what a filter makes of it.
func filterMap(r *run, v any, args []any, named *dict) any {
	out := &list{isGenerator: true}
	if !isTrue(v) { // also none and false
		return out
	}
	var change func(any) any
	attribute, hasAttribute := named.get(text{s: "attribute"})
	switch {
	case hasAttribute:
		checkNamedArgs(named, "map", "attribute", "default")
		get := r.attributeGetter(attribute)
		otherwise, hasDefault := named.get(text{s: "default"})
		change = func(v any) any {
			v = get(v)
			if _, missing := v.(undefined); missing && hasDefault {
				return otherwise
			}
			return v
		}
	case len(args) > 0:
		name := textArg(args, 0, "map").s
		f := findFilter(name)
		change = func(v any) any { return f(r, v, args[1:], named) }
	default:
		fail("map requires a filter argument")
	}
	for _, item := range r.iterate(v) {
		out.items = append(out.items, change(item))
	}
	r.countMade(16 * len(out.items))
	return out
}

// selectItems is the filters select and reject, which keep the items for which a test is true, or
// false, and selectattr and rejectattr, which test an attribute of the items.
func selectItems(r *run, v any, args []any, name string) any {
	out := &list{isGenerator: true}
	if !isTrue(v) { // also none and false
		return out
	}
	get := func(v any) any { return v }
	if strings.HasSuffix(name, "attr") {
		if len(args) == 0 {
			fail("%s: missing parameter for attribute name", name)
		}
		get = r.attributeGetter(args[0])
		args = args[1:]
	}
	passes := isTrue
	if len(args) > 0 {
		test := findTest(textArg(args, 0, name).s)
		passes = func(v any) bool { return test(r, v, args[1:]) }
	}
	for _, item := range r.iterate(v) {
		if passes(get(item)) == strings.HasPrefix(name, "select") {
			out.items = append(out.items, item)
		}
	}
	r.countMade(16 * len(out.items))
	return out
}

// filterDefault replaces a value that is not defined and, if `boolean` is true, one that counts as
// false.
func filterDefault(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "default", "default_value", "boolean")
	otherwise, ok := argument(args, 0, named, "default_value")
	if !ok {
		otherwise = text{}
	}
	if argumentIsTrue(args, 1, named, "boolean") && !isTrue(v) {
		return otherwise
	}
	if _, missing := v.(undefined); missing {
		return otherwise
	}
	return v
}

// filterFirst returns the first item. A generator is then without it, as in Python.
func filterFirst(r *run, v any, args []any, named *dict) any {
	if l, ok := v.(*list); ok && l.isGenerator && len(l.items) > 0 { // what follows can be read later
		item := l.items[0]
		l.items = l.items[1:]
		return item
	}
	if items := r.iterate(v); len(items) > 0 {
		return items[0]
	}
	return undefined{"the first item of an empty sequence"}
}

// filterLast returns the last item.
func filterLast(r *run, v any, args []any, named *dict) any {
	if l, ok := v.(*list); ok && l.isGenerator {
		fail("a generator is not reversible")
	}
	if items := r.iterate(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return undefined{"the last item of an empty sequence"}
}

// filterReverse returns a text backwards, or a generator of the items from the last to the first.
func filterReverse(r *run, v any, args []any, named *dict) any {
	items := slices.Clone(r.iterate(v))
	slices.Reverse(items)
	if _, ok := v.(text); ok {
		return r.joinRunes(items)
	}
	l := r.newList(items)
	l.isGenerator = true
	return l
}
