package chat

import (
	"slices"
	"strings"
)

// sortKeyOf returns the function that gives what a filter compares of an item: the item or an
// attribute of it, texts in lower case unless case_sensitive is true. sensitive and attribute are
// the indexes of the filter's arguments.
func (r *run) sortKeyOf(args []any, sensitive, attribute int, named *dict) func(any) any {
	get := r.attributeArg(args, attribute, named)
	if argumentIsTrue(args, sensitive, named, "case_sensitive") {
		return get
	}
	return func(v any) any {
		v = get(v)
		if t, ok := v.(text); ok {
			return text{s: r.lower(t).s}
		}
		return v
	}
}

// attributeArg returns the function that reads a filter's argument attribute of an item.
func (r *run) attributeArg(args []any, i int, named *dict) func(any) any {
	if a, ok := argument(args, i, named, "attribute"); ok && a != nil {
		return r.attributeGetter(a)
	}
	return func(v any) any { return v }
}

// filterUnique leaves out items that compare like an earlier one.
func filterUnique(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "unique", "case_sensitive", "attribute")
	key := r.sortKeyOf(args, 0, 1, named)
	seen := newDict()
	out := &list{isGenerator: true}
	for _, item := range r.iterate(v) {
		k := r.countKey(key(item))
		if _, ok := seen.get(k); !ok {
			seen.set(k, nil)
			out.items = append(out.items, item)
		}
	}
	return out
}

// extremeFilter is Jinja's min, or its max.
func extremeFilter(name string) filterFunc {
	return func(r *run, v any, args []any, named *dict) any {
		checkNamedArgs(named, name, "case_sensitive", "attribute")
		key := r.sortKeyOf(args, 0, 1, named)
		best := any(undefined{"the " + name + " of an empty sequence"})
		for i, item := range r.iterate(v) {
			switch {
			case i == 0,
				name == "min" && r.isLess(key(item), key(best)),
				name == "max" && r.isLess(key(best), key(item)):
				best = item
			}
		}
		return best
	}
}

// filterDictsort returns the pairs of a dict in the order of their keys or values.
func filterDictsort(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "dictsort", "case_sensitive", "by", "reverse")
	d, ok := v.(*dict)
	if !ok {
		fail("dictsort takes a dict, found %s", typeName(v))
	}
	part := 0 // of a pair: the key
	if a, ok := argument(args, 1, named, "by"); ok {
		switch sortBy := r.pythonStr(a).s; sortBy {
		case "key":
		case "value":
			part = 1
		default:
			fail("dictsort: by is %.40q, want key or value", sortBy)
		}
	}
	key := r.sortKeyOf(args, 0, -1, named)
	return r.sortItems(r.pairsOf(d).items, argumentIsTrue(args, 2, named, "reverse"),
		func(v any) any { return key(v.(*list).items[part]) })
}

// filterSort sorts items, those that compare alike in their order.
func filterSort(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "sort", "reverse", "case_sensitive", "attribute")
	a, _ := argument(args, 2, named, "attribute")
	if t, ok := a.(text); ok && strings.Contains(t.s, ",") {
		fail("sort by several attributes is not supported")
	}
	key := r.sortKeyOf(args, 1, 2, named)
	return r.sortItems(r.iterate(v), argumentIsTrue(args, 0, named, "reverse"),
		func(v any) any { return &list{items: []any{key(v)}} }) // what is equal need not compare
}

// compareValues compares two values as slices.SortFunc wants it.
func (r *run) compareValues(a, b any) int {
	switch {
	case r.isLess(a, b):
		return -1
	case r.isLess(b, a):
		return 1
	}
	return 0
}

// sortItems returns a list of items in the order of their keys.
func (r *run) sortItems(items []any, backwards bool, key func(any) any) *list {
	type keyed struct{ item, key any }
	pairs := make([]keyed, len(items))
	for i, item := range items {
		pairs[i] = keyed{item, key(item)}
	}
	slices.SortStableFunc(pairs, func(a, b keyed) int {
		if backwards {
			a, b = b, a
		}
		return r.compareValues(a.key, b.key)
	})
	out := make([]any, len(pairs))
	for i, pair := range pairs {
		out[i] = pair.item
	}
	return r.newList(out)
}
