package schema

import (
	"cmp"
	"slices"
	"strconv"
)

// combined returns the schemas of the same value that a schema holds, all of which apply.
func (d *document) combined(e *expr, o *object, depth int) ([]*expr, error) {
	list := d.list(e, o, "allOf")
	if any := d.list(e, o, "anyOf"); any != nil {
		list = append(list, anyOf(any...))
	}
	if one := d.list(e, o, "oneOf"); one != nil {
		x, err := oneOf(one, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	if x := d.part(e, o, "not"); x != nil {
		list = append(list, other(x))
	}
	if x := d.part(e, o, "if"); x != nil {
		then := cmp.Or(d.part(e, o, "then"), anything)
		otherwise := cmp.Or(d.part(e, o, "else"), anything)
		if then != anything || otherwise != anything {
			list = append(list, anyOf(both(x, then), both(other(x), otherwise)))
		}
	}
	for _, keyword := range []string{"dependencies", "dependentRequired", "dependentSchemas"} {
		deps, ok := o.values[keyword].(*object)
		if !ok {
			continue
		}
		for _, k := range deps.keys {
			list = append(list, d.dependency(e, keyword, k, deps.values[k]))
		}
	}
	return list, nil
}

// part returns the schema that a keyword of a schema holds, nil without the keyword.
func (d *document) part(e *expr, o *object, keyword string) *expr {
	v, ok := o.get(keyword)
	if !ok {
		return nil
	}
	return d.sub(step(e.at, keyword), v)
}

// list returns the list of schemas that a keyword of a schema holds, nil without one.
func (d *document) list(e *expr, o *object, keyword string) (out []*expr) {
	values, ok := o.values[keyword].([]any)
	if !ok {
		return nil
	}
	out = []*expr{}
	for i, v := range values {
		out = append(out, d.sub(step(step(e.at, keyword), strconv.Itoa(i)), v))
	}
	return out
}

// dependency returns the schema of what a key asks of its object.
func (d *document) dependency(e *expr, keyword, key string, v any) *expr {
	var then *expr
	switch v := v.(type) {
	case []any:
		s := every(dict)
		s.props, s.required = map[string]*expr{}, namesIn(v)
		s.required[key] = true
		then = &expr{listed: []*shape{s}}
	default:
		has := every(dict)
		has.required = map[string]bool{key: true}
		then = both(&expr{listed: []*shape{has}}, d.sub(step(step(e.at, keyword), key), v))
	}
	without := every(dict)
	without.keys, without.props = []string{key}, map[string]*expr{key: nothing}
	return anyOf(&expr{listed: append(allBut(dict), without)}, then)
}

// anyOf returns the schema of what any of several schemas allows.
func anyOf(list ...*expr) *expr {
	e := &expr{any: slices.Clone(list)}
	for _, part := range list {
		e.doc = cmp.Or(e.doc, part.doc)
	}
	return e
}

// oneOf returns the schema of what exactly one of several schemas allows.
// To no depth, it is that of any.
func oneOf(list []*expr, depth int) (*expr, error) {
	if depth == 0 {
		return anyOf(list...), nil
	}
	alternatives := 0
	for _, e := range list {
		shapes, err := e.to(depth)
		if alternatives += len(shapes); err == nil && alternatives > maxShapes {
			err = e.refuse(tooMany().Error())
		}
		if err != nil {
			return nil, err
		}
	}
	var out []*expr
	for i, e := range list {
		only := e
		for j, f := range list {
			if i == j {
				continue
			}
			common := both(e, f)
			shapes, err := common.to(depth)
			if err != nil {
				return nil, err
			}
			if len(shapes) == 0 || common.empty(depth) {
				continue
			}
			only = both(only, other(f))
		}
		out = append(out, only)
	}
	return anyOf(out...), nil
}
