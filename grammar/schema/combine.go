package schema

import (
	"cmp"
	"slices"
	"strconv"
)

// schemasOfSameValue returns the schemas that apply to the same value as the one that holds them:
// allOf and its relatives. All of them apply.
func (d *document) schemasOfSameValue(e *expr, o *object, depth int) ([]*expr, error) {
	list := d.subschemas(e, o, "allOf")
	if alternatives := d.subschemas(e, o, "anyOf"); alternatives != nil {
		list = append(list, unionOf(alternatives...))
	}
	if alternatives := d.subschemas(e, o, "oneOf"); alternatives != nil {
		x, err := exactlyOneOf(alternatives, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	if x := d.subschema(e, o, "not"); x != nil {
		list = append(list, negate(x))
	}
	if condition := d.subschema(e, o, "if"); condition != nil {
		// If C then A else B is (C and A) or (not C and B). Without A and B it says nothing.
		then := cmp.Or(d.subschema(e, o, "then"), anything)
		otherwise := cmp.Or(d.subschema(e, o, "else"), anything)
		if then != anything || otherwise != anything {
			list = append(list, unionOf(intersect(condition, then),
				intersect(negate(condition), otherwise)))
		}
	}
	for _, keyword := range []string{"dependencies", "dependentRequired", "dependentSchemas"} {
		dependencies, ok := o.values[keyword].(*object)
		if !ok {
			continue
		}
		for _, k := range dependencies.keys {
			list = append(list, d.dependencySchema(e, keyword, k, dependencies.values[k]))
		}
	}
	return list, nil
}

// subschema returns the schema that a keyword of a schema holds, nil without the keyword.
func (d *document) subschema(e *expr, o *object, keyword string) *expr {
	v, ok := o.get(keyword)
	if !ok {
		return nil
	}
	return d.schemaAt(appendPointer(e.pointer, keyword), v)
}

// subschemas returns the list of schemas that a keyword of a schema holds, nil without a list.
func (d *document) subschemas(e *expr, o *object, keyword string) []*expr {
	values, ok := o.values[keyword].([]any)
	if !ok {
		return nil
	}
	list := []*expr{}
	parent := appendPointer(e.pointer, keyword)
	for i, v := range values {
		list = append(list, d.schemaAt(appendPointer(parent, strconv.Itoa(i)), v))
	}
	return list
}

// dependencySchema returns the schema of what a key asks of its object: that it has other keys, or
// satisfies a schema. Values without the key satisfy it.
func (d *document) dependencySchema(e *expr, keyword, key string, v any) *expr {
	var dependent *expr
	switch v := v.(type) {
	case []any:
		s := allOfKind(objectKind)
		s.properties = map[string]*expr{}
		s.required = textSet(v)
		s.required[key] = true
		dependent = &expr{constant: []*shape{s}}
	default:
		withKey := allOfKind(objectKind)
		withKey.required = map[string]bool{key: true}
		pointer := appendPointer(appendPointer(e.pointer, keyword), key)
		dependent = intersect(&expr{constant: []*shape{withKey}}, d.schemaAt(pointer, v))
	}
	withoutKey := allOfKind(objectKind)
	withoutKey.forbidKey(key)
	independent := &expr{constant: append(allShapesExcept(objectKind), withoutKey)}
	return unionOf(independent, dependent)
}

// unionOf returns the schema of what any of several schemas allows.
func unionOf(list ...*expr) *expr {
	e := &expr{any: slices.Clone(list)}
	for _, part := range list {
		e.doc = cmp.Or(e.doc, part.doc)
	}
	return e
}

// exactlyOneOf returns the schema of what exactly one of several schemas allows. At depth 0 it is
// that of what any allows, which is not looked into.
//
// Each alternative loses what it has in common with others. Most have nothing in common, which the
// shapes show; leaving those pairs out keeps a oneOf of n alternatives from n*n negations.
func exactlyOneOf(list []*expr, depth int) (*expr, error) {
	if depth == 0 {
		return unionOf(list...), nil
	}
	alternatives := 0
	for _, e := range list {
		shapes, err := e.shapesTo(depth)
		if err != nil {
			return nil, err
		}
		alternatives += len(shapes)
		if alternatives > maxShapes {
			return nil, e.unsupported(errTooManyShapes().Error())
		}
	}
	var out []*expr
	for i, e := range list {
		only := e
		for j, sibling := range list {
			if i == j {
				continue
			}
			common := intersect(e, sibling)
			shapes, err := common.shapesTo(depth)
			if err != nil {
				return nil, err
			}
			if len(shapes) == 0 || common.seemsEmpty(depth) {
				continue
			}
			only = intersect(only, negate(sibling))
		}
		out = append(out, only)
	}
	return unionOf(out...), nil
}
