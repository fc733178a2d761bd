package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Write returns a JSON value as the engine would write it: the keys of an object in the order of
// the alternative that it satisfies or, if it satisfies none, of the first, and others sorted. The
// result matches the schema's automaton if the value is valid and within its bounds. What is not
// JSON is an error.
func (s *Schema) Write(data []byte) (string, error) {
	v, err := parseJSON(data)
	if err != nil {
		return "", fmt.Errorf("instance is not JSON: %w", err)
	}
	w := &writer{separators: separatorsFor(s.compact)}
	if doc := s.root.doc; doc != nil {
		w.pointMakesFraction = doc.draft == 3 || doc.draft == 4
	}
	w.writeValue(s.root, v)
	return w.out.String(), nil
}

type writer struct {
	separators
	out strings.Builder

	// pointMakesFraction: of draft 3 or 4, where a number with a point or an exponent is no integer,
	// even if its value is whole.
	pointMakesFraction bool
}

// writeValue writes a value of a schema.
func (w *writer) writeValue(e *expr, v any) {
	switch v := v.(type) {
	case nil:
		w.out.WriteString("null")
	case bool:
		fmt.Fprint(&w.out, v)
	case string:
		w.out.WriteString(quoteText(v))
	case json.Number:
		w.writeNumber(e, v)
	case []any:
		w.writeArray(chooseShape(e, arrayKind, v), v)
	case *object:
		w.writeObject(chooseShape(e, objectKind, v), v)
	}
}

// writeNumber writes a number in the one way in which the automaton reads it.
func (w *writer) writeNumber(e *expr, v json.Number) {
	x, ok := parseNumber(v)
	if !ok {
		w.out.WriteString(string(v))
		return
	}
	w.out.WriteString(formatNumber(x))
	hasPoint := strings.ContainsAny(string(v), ".eE")
	if w.pointMakesFraction && x.IsInt() && hasPoint && e.allowsOnlyAsInteger(v) {
		w.out.WriteString(".0") // so that the automaton refuses it too
	}
}

// allowsOnlyAsInteger reports whether no shape of a schema with fractions has a number.
func (e *expr) allowsOnlyAsInteger(v json.Number) bool {
	list, _ := e.shapes()
	return !slices.ContainsFunc(list, func(s *shape) bool {
		return s.kind == numberKind && !s.wholeOnly && s.allows(v)
	})
}

// writeArray writes a list, each element by its own schema.
func (w *writer) writeArray(s *shape, items []any) {
	w.out.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			w.out.WriteString(w.comma)
		}
		w.writeValue(s.itemSchema(i), item)
	}
	w.out.WriteByte(']')
}

// writeObject writes an object. Its keys are in the order of the schema, the only one that the
// automaton reads, and then those that the schema does not name.
func (w *writer) writeObject(s *shape, o *object) {
	var keys []string
	written := map[string]bool{}
	for _, k := range s.keyOrder() {
		if _, ok := o.get(k); ok && !written[k] {
			written[k] = true
			keys = append(keys, k)
		}
	}
	for _, k := range slices.Sorted(slices.Values(o.keys)) {
		if !written[k] {
			keys = append(keys, k)
		}
	}

	w.out.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			w.out.WriteString(w.comma)
		}
		w.out.WriteString(quoteText(k) + w.colon)
		w.writeValue(s.valueSchema(k), o.values[k])
	}
	w.out.WriteByte('}')
}

// chooseShape returns the shape of a schema that a value satisfies, or the first of its kind.
func chooseShape(e *expr, k kind, v any) *shape {
	list, _ := e.shapes()
	var first *shape
	for _, s := range list {
		if s.kind != k {
			continue
		}
		if s.allows(v) {
			return s
		}
		if first == nil {
			first = s
		}
	}
	if first == nil {
		return allOfKind(k)
	}
	return first
}

// allows reports whether a value belongs to a schema. It looks at what decides between
// alternatives, not at all rules: the automaton decides what is valid.
func (e *expr) allows(v any) bool {
	list, _ := e.shapes()
	return slices.ContainsFunc(list, func(s *shape) bool { return s.allows(v) })
}

// allows is as that of expr.
func (s *shape) allows(v any) bool {
	switch v := v.(type) {
	case nil:
		return s.kind == nullKind
	case bool:
		return s.kind == booleanKind && (s.only == nil || *s.only == v)
	case json.Number:
		number := shapeOfValue(v)
		return s.kind == numberKind && (number == nil || intersectShapes(s, number) != nil)
	case string:
		return s.kind == textKind && s.texts.contains(v)
	case []any:
		return s.kind == arrayKind && s.allowsArray(v)
	case *object:
		return s.kind == objectKind && s.allowsObject(v)
	}
	return false
}

// allowsArray reports whether the rules allow a list.
func (a *arrays) allowsArray(items []any) bool {
	if len(items) < a.minItems || a.maxItems >= 0 && len(items) > a.maxItems {
		return false
	}
	for i, item := range items {
		if !a.itemSchema(i).allows(item) {
			return false
		}
	}
	return true
}

// allowsObject reports whether the rules allow an object.
func (a *objects) allowsObject(o *object) bool {
	if len(o.keys) < a.minKeys || a.maxKeys >= 0 && len(o.keys) > a.maxKeys {
		return false
	}
	for k := range a.required {
		if _, ok := o.get(k); !ok {
			return false
		}
	}
	for _, k := range o.keys {
		if !a.valueSchema(k).allows(o.values[k]) {
			return false
		}
	}
	return true
}
