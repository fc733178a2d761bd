package schema

import (
	"fmt"
	"slices"
	"strings"
)

// read returns the shapes of a part of the document.
func (d *document) read(e *expr, depth int) ([]*shape, error) {
	o, ok := e.schema.(*object)
	if !ok {
		return nil, e.refuse("no schema")
	}
	if ref, ok := o.values["$ref"]; ok {
		name, _ := ref.(string)
		target, _, err := d.resolve(name, e.base)
		if err != nil {
			return nil, e.refuse(err.Error())
		}
		list, err := target.to(depth)
		if err != nil || d.old() {
			return list, err
		}
		rest, err := d.keywords(e, o, depth)
		if err != nil {
			return nil, err
		}
		return e.meet(list, rest, depth)
	}
	return d.keywords(e, o, depth)
}

// unsupported are keywords that change what is valid and that are refused.
var unsupported = []string{"unevaluatedProperties", "unevaluatedItems", "$dynamicRef",
	"$recursiveRef", "minContains", "maxContains", "extends", "disallow", "divisibleBy"}

func (d *document) keywords(e *expr, o *object, depth int) ([]*shape, error) {
	for _, k := range unsupported {
		_, ok := o.get(k)
		if _, counts := o.get("contains"); ok && (counts || !strings.HasSuffix(k, "Contains")) {
			return nil, e.refuse(k)
		}
	}
	list, err := d.own(e, o, depth)
	if err != nil {
		return nil, err
	}
	more, err := d.combined(e, o, depth)
	if err != nil {
		return nil, err
	}
	for _, part := range more {
		next, err := part.to(depth)
		if err != nil {
			return nil, err
		}
		if list, err = e.meet(list, next, depth); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// own returns the shapes that a schema's own keywords describe: all but those that hold schemas of
// the same value.
func (d *document) own(e *expr, o *object, depth int) ([]*shape, error) {
	types, whole, err := readTypes(o)
	if err != nil {
		return nil, e.refuse(err.Error())
	}
	list, listed, err := listedValues(e, o)
	if err != nil {
		return nil, e.refuse(err.Error())
	}
	var own []*shape
	r := &reader{d: d, e: e, o: o}
	for k := range kinds {
		if types != nil && !types[k] {
			continue
		}
		s := every(k)
		s.whole = whole && k == number
		possible := r.shape(s)
		if r.err != nil {
			return nil, r.err
		}
		if possible {
			own = append(own, s)
		}
	}
	if !listed {
		return own, nil
	}
	out, err := e.meet(own, list, depth)
	if err != nil {
		return nil, err
	}
	return joinLists(out), nil
}

// joinLists makes one shape of all that are lists of texts, and one of all that are of numbers.
func joinLists(list []*shape) []*shape {
	var out []*shape
	var ones [kinds]*shape
	for _, s := range list {
		if s.in != nil || s.values != nil {
			if one := ones[s.kind]; one != nil {
				one.in, one.values = append(one.in, s.in...), append(one.values, s.values...)
				continue
			}
			ones[s.kind] = s
		}
		out = append(out, s)
	}
	return out
}

var typeNames = map[string]kind{"null": null, "boolean": boolean, "number": number,
	"integer": number, "string": text, "array": array, "object": dict}

// readTypes returns the kinds that a schema's type allows, nil without one, and whether numbers
// must be whole.
func readTypes(o *object) (types *[kinds]bool, whole bool, err error) {
	v, ok := o.get("type")
	if !ok {
		return nil, false, nil
	}
	names, ok := v.([]any)
	if !ok {
		names = []any{v}
	}
	types = new([kinds]bool)
	if o.values["nullable"] == true {
		names = append(slices.Clone(names), "null")
	}
	for _, n := range names {
		name, _ := n.(string)
		k, ok := typeNames[name]
		switch {
		case name == "any": // draft 3
			return nil, false, nil
		case !ok:
			return nil, false, fmt.Errorf("type %.60q", name)
		}
		whole = name == "integer" && !types[number] || whole && name != "number"
		types[k] = true
	}
	return types, whole, nil
}

// listedValues returns the shapes of enum and const, and whether the schema has either.
func listedValues(e *expr, o *object) (list []*shape, listed bool, err error) {
	if v, ok := o.get("enum"); ok {
		known := map[string]bool{}
		for _, v := range v.([]any) {
			key := canonical(v)
			if s := exactly(v); s != nil && !known[key] {
				list = append(list, s)
			}
			known[key] = true
		}
		if list, listed = joinLists(list), true; len(list) > maxShapes {
			return nil, true, tooMany()
		}
	}
	if v, ok := o.get("const"); ok {
		var one []*shape
		if s := exactly(v); s != nil {
			one = append(one, s)
		}
		if !listed {
			return one, true, nil
		}
		list, err = e.meet(list, one, 0)
	}
	return list, listed, err
}
