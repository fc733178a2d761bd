package schema

import (
	"fmt"
	"slices"
	"strings"
)

// readPart returns the shapes of a part of the document.
func (d *document) readPart(e *expr, depth int) ([]*shape, error) {
	o, ok := e.value.(*object)
	if !ok {
		return nil, e.unsupported("no schema")
	}
	ref, ok := o.values["$ref"]
	if !ok {
		return d.readKeywords(e, o, depth)
	}

	uri, _ := ref.(string)
	target, _, err := d.resolveRef(uri, e.resource)
	if err != nil {
		return nil, e.unsupported(err.Error())
	}
	list, err := target.shapesTo(depth)
	if err != nil || d.ignoresBesideRef() {
		return list, err
	}
	besideRef, err := d.readKeywords(e, o, depth)
	if err != nil {
		return nil, err
	}
	return e.intersectUnions(list, besideRef, depth)
}

// refusedKeywords change what is valid in ways that are not supported. Passing over one of them
// would write values that the schema forbids.
var refusedKeywords = []string{"unevaluatedProperties", "unevaluatedItems", "$dynamicRef",
	"$recursiveRef", "minContains", "maxContains", "extends", "disallow", "divisibleBy"}

// readKeywords returns the shapes that the keywords of a schema describe, but for $ref.
func (d *document) readKeywords(e *expr, o *object, depth int) ([]*shape, error) {
	_, hasContains := o.get("contains")
	for _, k := range refusedKeywords {
		_, ok := o.get(k)
		// minContains and maxContains say nothing without contains.
		if ok && (hasContains || !strings.HasSuffix(k, "Contains")) {
			return nil, e.unsupported(k)
		}
	}
	list, err := d.readOwnKeywords(e, o, depth)
	if err != nil {
		return nil, err
	}
	applicable, err := d.schemasOfSameValue(e, o, depth)
	if err != nil {
		return nil, err
	}
	for _, part := range applicable {
		next, err := part.shapesTo(depth)
		if err != nil {
			return nil, err
		}
		list, err = e.intersectUnions(list, next, depth)
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readOwnKeywords returns the shapes that a schema's own keywords describe: all but those that hold
// schemas of the same value.
func (d *document) readOwnKeywords(e *expr, o *object, depth int) ([]*shape, error) {
	types, wholeOnly, err := readTypes(o)
	if err != nil {
		return nil, e.unsupported(err.Error())
	}
	listedShapes, listed, err := readListedValues(e, o)
	if err != nil {
		return nil, e.unsupported(err.Error())
	}
	var list []*shape
	r := &keywordReader{doc: d, schema: e, keywords: o}
	for k := range kindCount {
		if types != nil && !types[k] {
			continue
		}
		s := allOfKind(k)
		s.wholeOnly = wholeOnly && k == numberKind
		possible := r.readShape(s)
		if r.err != nil {
			return nil, r.err
		}
		if possible {
			list = append(list, s)
		}
	}
	if !listed {
		return list, nil
	}
	common, err := e.intersectUnions(list, listedShapes, depth)
	if err != nil {
		return nil, err
	}
	return joinLists(common), nil
}

// joinLists makes one shape of all that are lists of texts, and one of all that are of numbers, so
// that an enum of many values is not as many alternatives.
func joinLists(list []*shape) []*shape {
	var out []*shape
	var joined [kindCount]*shape
	for _, s := range list {
		if s.allowed == nil && s.listed == nil {
			out = append(out, s)
			continue
		}
		first := joined[s.kind]
		if first == nil {
			joined[s.kind] = s
			out = append(out, s)
			continue
		}
		first.allowed = append(first.allowed, s.allowed...)
		first.listed = append(first.listed, s.listed...)
	}
	return out
}

var typeNames = map[string]kind{
	"null":    nullKind,
	"boolean": booleanKind,
	"number":  numberKind,
	"integer": numberKind,
	"string":  textKind,
	"array":   arrayKind,
	"object":  objectKind,
}

// readTypes returns the kinds that a schema's type allows, nil without one, and whether numbers
// must be whole.
func readTypes(o *object) (types *[kindCount]bool, wholeOnly bool, err error) {
	v, ok := o.get("type")
	if !ok {
		return nil, false, nil
	}
	names, ok := v.([]any)
	if !ok {
		names = []any{v}
	}
	types = new([kindCount]bool)
	if o.values["nullable"] == true { // OpenAPI 3.0
		names = append(slices.Clone(names), "null")
	}
	for _, n := range names {
		name, _ := n.(string)
		if name == "any" { // draft 3
			return nil, false, nil
		}
		k, ok := typeNames[name]
		if !ok {
			return nil, false, fmt.Errorf("type %.60q", name)
		}
		wholeOnly = name == "integer" && !types[numberKind] || wholeOnly && name != "number"
		types[k] = true
	}
	return types, wholeOnly, nil
}

// readListedValues returns the shapes of enum and const, and whether the schema has either.
func readListedValues(e *expr, o *object) (list []*shape, listed bool, err error) {
	if v, ok := o.get("enum"); ok {
		seen := map[string]bool{}
		for _, v := range v.([]any) {
			key := canonicalText(v)
			if s := shapeOfValue(v); s != nil && !seen[key] {
				list = append(list, s)
			}
			seen[key] = true
		}
		list = joinLists(list)
		listed = true
		if len(list) > maxShapes {
			return nil, true, errTooManyShapes()
		}
	}
	if v, ok := o.get("const"); ok {
		var constant []*shape
		if s := shapeOfValue(v); s != nil {
			constant = append(constant, s)
		}
		if !listed {
			return constant, true, nil
		}
		list, err = e.intersectUnions(list, constant, 0)
	}
	return list, listed, err
}
