package chat

import (
	"slices"
	"strings"
)

// keyed returns the function that gives what a filter compares of an item: the item or an
// attribute of it, texts in lower case unless case_sensitive is true. The numbers are those of the
// filter's arguments.
func (r *run) keyed(args []any, sensitive, attribute int, named *dict) func(any) any {
	get := r.attributeOf(args, attribute, named)
	if isSet(args, sensitive, named, "case_sensitive") {
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

// attributeOf returns the function that reads a filter's argument attribute of an item.
func (r *run) attributeOf(args []any, i int, named *dict) func(any) any {
	if a, ok := option(args, i, named, "attribute"); ok && a != nil {
		return r.getter(a)
	}
	return func(v any) any { return v }
}

func filterUnique(r *run, v any, args []any, named *dict) any {
	known(named, "unique", "case_sensitive", "attribute")
	key := r.keyed(args, 0, 1, named)
	seen := newDict()
	out := &list{once: true}
	for _, item := range r.items(v) {
		k := r.key(key(item))
		if _, ok := seen.get(k); !ok {
			seen.set(k, nil)
			out.items = append(out.items, item)
		}
	}
	return out
}

// extreme is Jinja's min, or its max.
func extreme(name string) filter {
	return func(r *run, v any, args []any, named *dict) any {
		known(named, name, "case_sensitive", "attribute")
		key := r.keyed(args, 0, 1, named)
		best := any(undefined{"the " + name + " of an empty sequence"})
		for i, item := range r.items(v) {
			if i == 0 || name == "min" && r.less(key(item), key(best)) ||
				name == "max" && r.less(key(best), key(item)) {
				best = item
			}
		}
		return best
	}
}

func filterDictsort(r *run, v any, args []any, named *dict) any {
	known(named, "dictsort", "case_sensitive", "by", "reverse")
	d, ok := v.(*dict)
	if !ok {
		fail("dictsort takes a dict, found %s", typeName(v))
	}
	at := 0
	if a, ok := option(args, 1, named, "by"); ok {
		switch by := r.str(a).s; by {
		case "key":
		case "value":
			at = 1
		default:
			fail("dictsort: by is %.40q, want key or value", by)
		}
	}
	key := r.keyed(args, 0, -1, named)
	return r.sorted(r.pairs(d).items, isSet(args, 2, named, "reverse"),
		func(v any) any { return key(v.(*list).items[at]) })
}

func filterSort(r *run, v any, args []any, named *dict) any {
	known(named, "sort", "reverse", "case_sensitive", "attribute")
	a, _ := option(args, 2, named, "attribute")
	if t, ok := a.(text); ok && strings.Contains(t.s, ",") {
		fail("sort by several attributes is not done here")
	}
	key := r.keyed(args, 1, 2, named)
	return r.sorted(r.items(v), isSet(args, 0, named, "reverse"),
		func(v any) any { return &list{items: []any{key(v)}} }) // what is equal need not compare
}

// order compares two values as slices.SortFunc wants it.
func (r *run) order(a, b any) int {
	switch {
	case r.less(a, b):
		return -1
	case r.less(b, a):
		return 1
	}
	return 0
}

// sorted returns a list of items in the order of their keys.
func (r *run) sorted(items []any, backwards bool, key func(any) any) *list {
	type keyed struct{ item, key any }
	all := make([]keyed, len(items))
	for i, item := range items {
		all[i] = keyed{item, key(item)}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		x, y := a.key, b.key
		if backwards {
			x, y = y, x
		}
		return r.order(x, y)
	})
	out := make([]any, len(all))
	for i, one := range all {
		out[i] = one.item
	}
	return r.newList(out)
}
