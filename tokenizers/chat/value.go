package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Values of a template are nil (None), bool, int64, json.Number (a longer whole number), float64,
// text, *list, *dict, *namespace, *iteration (the variable loop), *function and undefined.

// undefined is the value of an unknown name or key; most uses of it are errors, which begin with
// its description.
type undefined struct{ description string }

// list is a list, a tuple, or the result of filters such as map.
type list struct {
	items   []any
	isTuple bool

	// isGenerator: it has no length and can be read once.
	isGenerator bool

	// viewName is "range(0, 3)", or the name of a dict's view such as dict_keys; "" for other lists.
	viewName string
}

// dict keeps its keys in order.
type dict struct {
	keys   []any
	values []any
	index  map[any]int // by hashKey
}

// newDict returns an empty dictionary.
func newDict() *dict { return &dict{index: map[any]int{}} }

// hashKey returns the map key for a key; equal keys give equal ones, such as 1, 1.0 and True.
func hashKey(key any) any {
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
		if k.isTuple {
			fail("keys that are tuples are not supported")
		}
	}
	fail("unhashable type: %s", typeName(key))
	return nil
}

// get returns the value of a key, by Python's equality: 1, 1.0 and True are one key.
func (d *dict) get(key any) (any, bool) {
	i, ok := d.index[hashKey(key)]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// set sets the value of a key. A new one is the last, and a known one keeps its place.
func (d *dict) set(key, value any) {
	k := hashKey(key)
	if i, ok := d.index[k]; ok {
		d.values[i] = value
		return
	}
	d.index[k] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, value)
}

// namespace holds values that a template sets in loops, whose own variables end with an iteration.
type namespace struct{ fields *dict }

// function is a function that a template can call.
type function struct {
	name string
	call func(r *run, args []any, named *dict) any
}

// failure is the panic of a fault in a template or its rendering; Parse and Render recover it. Each
// of many small steps can fail, and errors that all of them pass up would hide what they compute.
type failure struct{ message string }

// fail ends the rendering or parsing with an error, which the package's functions recover and
// return.
func fail(format string, args ...any) {
	panic(failure{oneLine(fmt.Sprintf(format, args...))})
}

// oneLine returns a text without line ends, cut to a length that fits in an error.
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
		case v.isTuple:
			return "tuple"
		case v.isGenerator:
			return "generator"
		case strings.HasPrefix(v.viewName, "range"):
			return "range"
		case v.viewName != "":
			return v.viewName
		}
		return "list"
	case *dict:
		return "dict"
	case *namespace:
		return "Namespace"
	case *iteration:
		return "LoopContext"
	case undefined:
		return "Undefined"
	}
	return "function"
}

// isTrue returns Python's bool(v).
func isTrue(v any) bool {
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
		return v.isGenerator || len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// iterate returns what a loop over v gives; an error where v is not iterable.
func (r *run) iterate(v any) []any {
	switch v := v.(type) {
	case undefined:
		return nil
	case text:
		runes := r.splitRunes(v)
		out := make([]any, len(runes))
		for i, t := range runes {
			out[i] = t
		}
		return out
	case *list:
		items := v.items
		if v.isGenerator {
			v.items = nil
		}
		r.countSteps(len(items))
		return items
	case *dict:
		r.countSteps(len(v.keys))
		return v.keys
	}
	fail("%q object is not iterable", typeName(v))
	return nil
}

// newList returns a list of items, and counts its bytes.
func (r *run) newList(items []any) *list {
	r.countMade(16 * len(items))
	return &list{items: items}
}

// length returns Python's len(v).
func (r *run) length(v any) int64 {
	switch v := v.(type) {
	case undefined:
		return 0
	case text:
		r.countRead(len(v.s))
		return int64(utf8.RuneCountInString(v.s))
	case *list:
		if !v.isGenerator {
			return int64(len(v.items))
		}
	case *dict:
		return int64(len(v.keys))
	}
	fail("object of type %q has no len()", typeName(v))
	return 0
}

// asNumber returns v as Python's arithmetic takes it: bools are whole numbers. whole is set where
// isWhole is, and real always. ok is false for what is no number.
func asNumber(v any) (whole int64, real float64, isWhole, ok bool) {
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

// equals returns Python's a == b.
func (r *run) equals(a, b any) bool {
	defer r.nest()()
	if x, realX, wholeX, ok := asNumber(a); ok {
		y, realY, wholeY, ok := asNumber(b)
		if wholeX && wholeY { // floats lose the last digits of large whole numbers
			return x == y
		}
		return ok && realX == realY
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
		r.countRead(len(a.s))
		return a.s == b.s
	case *list:
		b, ok := b.(*list)
		if !ok || a.isGenerator || b.isGenerator {
			return a == b
		}
		return a.isTuple == b.isTuple && slices.EqualFunc(a.items, b.items, r.equals)
	case *dict:
		b, ok := b.(*dict)
		if !ok || len(a.keys) != len(b.keys) {
			return false
		}
		for i, k := range a.keys {
			if v, ok := b.get(k); !ok || !r.equals(a.values[i], v) {
				return false
			}
		}
		return true
	}
	return a == b
}

// isLess returns Python's a < b for numbers, texts and lists.
func (r *run) isLess(a, b any) bool {
	defer r.nest()()
	x, realX, wholeX, okX := asNumber(a)
	y, realY, wholeY, okY := asNumber(b)
	if okX && okY {
		if wholeX && wholeY {
			return x < y
		}
		return realX < realY
	}
	switch a := a.(type) {
	case text:
		if b, ok := b.(text); ok {
			r.countRead(min(len(a.s), len(b.s)))
			return a.s < b.s // UTF-8 sorts as code points do
		}
	case *list:
		b, ok := b.(*list)
		if !ok || a.isTuple != b.isTuple || a.isGenerator || b.isGenerator {
			break
		}
		for i := range min(len(a.items), len(b.items)) {
			if !r.equals(a.items[i], b.items[i]) {
				return r.isLess(a.items[i], b.items[i])
			}
		}
		return len(a.items) < len(b.items)
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
		r.countSteps(1 + len(v.s)/64)
		return strings.Contains(v.s, t.s)
	case *dict:
		_, ok := v.get(r.countKey(item))
		return ok
	case nil, bool, int64, float64, *function, *namespace, *iteration:
		fail("argument of type %q is not iterable", typeName(v))
	}
	if l, ok := v.(*list); ok && l.isGenerator {
		// What comes after the item that is found can still be read.
		for len(l.items) > 0 {
			next := l.items[0]
			l.items = l.items[1:]
			if r.equals(next, item) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(r.iterate(v), func(x any) bool { return r.equals(x, item) })
}

// countKey counts the work of looking up a key, and returns the key.
func (r *run) countKey(k any) any {
	if t, ok := k.(text); ok {
		r.countRead(len(t.s))
	}
	return k
}
