package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Write returns a JSON value as the engine would write it: the keys of an object in the order of
// the alternative that it satisfies or, if it satisfies none, of the first, and others sorted.
func (s *Schema) Write(data []byte) (string, error) {
	v, err := parse(data)
	if err != nil {
		return "", fmt.Errorf("instance is not JSON: %w", err)
	}
	w := &writer{separators: written(s.compact)}
	w.early = s.root.doc != nil && (s.root.doc.draft == 3 || s.root.doc.draft == 4)
	w.value(s.root, v)
	return w.out.String(), nil
}

type writer struct {
	separators
	out   strings.Builder
	early bool // draft 3 or 4: a number with a point or an exponent is no integer
}

// whole reports whether a number is valid as an integer alone.
func (e *expr) whole(v json.Number) bool {
	list, _ := e.union()
	return !slices.ContainsFunc(list, func(s *shape) bool {
		return s.kind == number && !s.numbers.whole && s.valid(v)
	})
}

func (w *writer) value(e *expr, v any) {
	switch v := v.(type) {
	case nil:
		w.out.WriteString("null")
	case bool:
		fmt.Fprint(&w.out, v)
	case string:
		w.out.WriteString(quote(v))
	case json.Number:
		r, ok := rational(v)
		if !ok {
			w.out.WriteString(string(v))
			return
		}
		w.out.WriteString(digits(r))
		if w.early && r.IsInt() && strings.ContainsAny(string(v), ".eE") && e.whole(v) {
			w.out.WriteString(".0")
		}
	case []any:
		s := choose(e, array, v)
		w.out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				w.out.WriteString(w.comma)
			}
			w.value(s.at(i), item)
		}
		w.out.WriteByte(']')
	case *object:
		s := choose(e, dict, v)
		w.out.WriteByte('{')
		first := true
		put := func(k string) {
			if !first {
				w.out.WriteString(w.comma)
			}
			first = false
			w.out.WriteString(quote(k) + w.colon)
			w.value(s.of(k), v.values[k])
		}
		done := map[string]bool{}
		for _, k := range s.order() {
			if _, ok := v.get(k); ok && !done[k] {
				done[k] = true
				put(k)
			}
		}
		for _, k := range slices.Sorted(slices.Values(v.keys)) {
			if !done[k] {
				put(k)
			}
		}
		w.out.WriteByte('}')
	}
}

// choose returns the shape of a schema that a value satisfies, or the first of its kind.
func choose(e *expr, k kind, v any) *shape {
	list, _ := e.union()
	var first *shape
	for _, s := range list {
		if s.kind != k {
			continue
		}
		if s.valid(v) {
			return s
		}
		if first == nil {
			first = s
		}
	}
	if first == nil {
		return every(k)
	}
	return first
}

func (e *expr) valid(v any) bool {
	list, _ := e.union()
	return slices.ContainsFunc(list, func(s *shape) bool { return s.valid(v) })
}

// valid reports whether a value belongs to a shape.
func (s *shape) valid(v any) bool {
	switch v := v.(type) {
	case nil:
		return s.kind == null
	case bool:
		return s.kind == boolean && (s.only == nil || *s.only == v)
	case json.Number:
		one := exactly(v)
		return s.kind == number && (one == nil || and(s, one) != nil)
	case string:
		return s.kind == text && s.has(v)
	case []any:
		if s.kind != array || len(v) < s.minItems || s.maxItems >= 0 && len(v) > s.maxItems {
			return false
		}
		for i, item := range v {
			if !s.at(i).valid(item) {
				return false
			}
		}
		return true
	case *object:
		if s.kind != dict || len(v.keys) < s.minProps || s.maxProps >= 0 && len(v.keys) > s.maxProps {
			return false
		}
		for k := range s.required {
			if _, ok := v.get(k); !ok {
				return false
			}
		}
		for _, k := range v.keys {
			if !s.of(k).valid(v.values[k]) {
				return false
			}
		}
		return true
	}
	return false
}
