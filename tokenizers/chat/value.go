package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Values of a template are nil (None), bool, int64, json.Number (a longer whole number), float64,
// text, *list, *dict, *namespace, *turn (the variable loop), *function and undefined.

// undefined is the value of an unknown name or key; most uses of it are errors.
type undefined struct{ what string }

// list is a list, a tuple, or the result of filters such as map, which has no length and can be
// read once.
type list struct {
	items []any
	tuple bool
	once  bool
	view  string // "range(0, 3)", or the name of a dict's view such as dict_keys
}

// dict keeps its keys in order.
type dict struct {
	keys   []any
	values []any
	at     map[any]int // by plain
}

func newDict() *dict { return &dict{at: map[any]int{}} }

// plain returns the map key for a key; equal keys give equal ones.
func plain(key any) any {
	switch k := key.(type) {
	case text:
		return k.s
	case bool:
		if k {
			return int64(1)
		}
		return int64(0)
	case float64:
		if float64(int64(k)) == k {
			return int64(k)
		}
		return k
	case undefined: // all of them are equal
		return undefined{}
	case nil, int64:
		return k
	case *list:
		if k.tuple {
			fail("keys that are tuples are not read here")
		}
	}
	fail("unhashable type: %s", typeName(key))
	return nil
}

func (d *dict) get(key any) (any, bool) {
	i, ok := d.at[plain(key)]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

func (d *dict) set(key, value any) {
	k := plain(key)
	if i, ok := d.at[k]; ok {
		d.values[i] = value
		return
	}
	d.at[k] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, value)
}

// namespace holds values that a template sets in loops.
type namespace struct{ fields *dict }

// function is a function that a template can call.
type function struct {
	name string
	call func(r *run, args []any, named *dict) any
}

// failure is the panic of a fault in a template or its rendering; Parse and Render recover it.
type failure struct{ message string }

func fail(format string, args ...any) {
	panic(failure{oneLine(fmt.Sprintf(format, args...))})
}

func oneLine(s string) string {
	s = strings.ToValidUTF8(strings.NewReplacer("\n", " ", "\r", " ").Replace(s), "\ufffd")
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "..."
	}
	return s
}

// typeName returns Python's name of v's type.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, json.Number:
		return "int"
	case float64:
		return "float"
	case text:
		return "str"
	case *list:
		switch {
		case v.tuple:
			return "tuple"
		case v.once:
			return "generator"
		case strings.HasPrefix(v.view, "range"):
			return "range"
		case v.view != "":
			return v.view
		}
		return "list"
	case *dict:
		return "dict"
	case *namespace:
		return "Namespace"
	case *turn:
		return "LoopContext"
	case undefined:
		return "Undefined"
	}
	return "function"
}

// truth returns Python's bool(v).
func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case text:
		return v.s != ""
	case *list:
		return v.once || len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// items returns what a loop over v gives; an error where v is not iterable.
func (r *run) items(v any) []any {
	switch v := v.(type) {
	case undefined:
		return nil
	case text:
		runes := r.runes(v)
		out := make([]any, len(runes))
		for i, t := range runes {
			out[i] = t
		}
		return out
	case *list:
		items := v.items
		if v.once {
			v.items = nil
		}
		r.step(len(items))
		return items
	case *dict:
		r.step(len(v.keys))
		return v.keys
	}
	fail("%q object is not iterable", typeName(v))
	return nil
}

// newList counts what it makes.
func (r *run) newList(items []any) *list {
	r.made(16 * len(items))
	return &list{items: items}
}

// length returns Python's len(v).
func (r *run) length(v any) int64 {
	switch v := v.(type) {
	case undefined:
		return 0
	case text:
		r.touch(len(v.s))
		return int64(utf8.RuneCountInString(v.s))
	case *list:
		if !v.once {
			return int64(len(v.items))
		}
	case *dict:
		return int64(len(v.keys))
	}
	fail("object of type %q has no len()", typeName(v))
	return 0
}

// number returns v as Python's arithmetic takes it: bools are whole numbers.
func number(v any) (whole int64, real float64, isWhole, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	}
	return 0, 0, false, false
}

// equal returns Python's a == b.
func (r *run) equal(a, b any) bool {
	defer r.deeper()()
	if x, fx, wx, ok := number(a); ok {
		y, fy, wy, ok := number(b)
		return ok && (wx && wy && x == y || (!wx || !wy) && fx == fy)
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	case text:
		b, ok := b.(text)
		if !ok || len(a.s) != len(b.s) {
			return false
		}
		r.touch(len(a.s))
		return a.s == b.s
	case *list:
		b, ok := b.(*list)
		if !ok || a.once || b.once {
			return a == b
		}
		return a.tuple == b.tuple && slices.EqualFunc(a.items, b.items, r.equal)
	case *dict:
		b, ok := b.(*dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for i, k := range a.keys {
			if v, ok := b.get(k); !ok || !r.equal(a.values[i], v) {
				return false
			}
		}
		return true
	}
	return a == b
}

// less returns Python's a < b for numbers, texts and lists.
func (r *run) less(a, b any) bool {
	defer r.deeper()()
	x, fx, wx, ok := number(a)
	y, fy, wy, ok2 := number(b)
	if ok && ok2 {
		if wx && wy {
			return x < y
		}
		return fx < fy
	}
	switch a := a.(type) {
	case text:
		if b, ok := b.(text); ok {
			r.touch(min(len(a.s), len(b.s)))
			return a.s < b.s // UTF-8 sorts as code points do
		}
	case *list:
		if b, ok := b.(*list); ok && a.tuple == b.tuple && !a.once && !b.once {
			for i := range min(len(a.items), len(b.items)) {
				if !r.equal(a.items[i], b.items[i]) {
					return r.less(a.items[i], b.items[i])
				}
			}
			return len(a.items) < len(b.items)
		}
	}
	fail("'<' not supported between instances of %q and %q", typeName(a), typeName(b))
	return false
}

// contains returns Python's item in v.
func (r *run) contains(v, item any) bool {
	switch v := v.(type) {
	case text:
		t, ok := item.(text)
		if !ok {
			fail("'in <string>' requires string as left operand, not %s", typeName(item))
		}
		r.step(1 + len(v.s)/64)
		return strings.Contains(v.s, t.s)
	case *dict:
		_, ok := v.get(r.key(item))
		return ok
	case nil, bool, int64, float64, *function, *namespace, *turn:
		fail("argument of type %q is not iterable", typeName(v))
	}
	if l, ok := v.(*list); ok && l.once { // what comes after it can still be read
		for len(l.items) > 0 {
			one := l.items[0]
			if l.items = l.items[1:]; r.equal(one, item) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(r.items(v), func(one any) bool { return r.equal(one, item) })
}

// key counts the work of looking up a key.
func (r *run) key(k any) any {
	if t, ok := k.(text); ok {
		r.touch(len(t.s))
	}
	return k
}
