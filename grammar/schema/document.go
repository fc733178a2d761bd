package schema

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"unmask/grammar"
)

// UnsupportedError is the error of a schema with something that this package does not do.
type UnsupportedError struct {
	Pointer string // JSON pointer
	Feature string

	open bool // a definition was needed while it was being read
}

func (r *UnsupportedError) Error() string {
	return fmt.Sprintf("schema is %s at #%s, want what docs/structured.md lists", r.Feature, r.Pointer)
}

// document is a whole schema.
type document struct {
	root      any
	draft     int // 3 to 7, 2019 or 2020; 0: not said
	exprs     map[string]*expr
	search    map[string]*grammar.DFA
	resources map[string]*resource // by their URI
	budget    *grammar.Budget
}

// resource is a part of a document with a URI of its own (2020-12 core, 8.2.1).
type resource struct {
	uri     *url.URL
	size    int // bytes of the URI
	at      string
	root    any
	anchors map[string]*expr
}

// uriWork is the work on a byte of a URI that is resolved.
const uriWork = 8

var drafts = map[string]int{"draft-03": 3, "draft-04": 4, "draft-06": 6, "draft-07": 7,
	"2019-09": 2019, "2020-12": 2020}

func newDocument(root any, budget *grammar.Budget) (*document, error) {
	d := &document{root: root, exprs: map[string]*expr{}, search: map[string]*grammar.DFA{},
		resources: map[string]*resource{}, budget: budget}
	if o, ok := root.(*object); ok {
		name, _ := o.values["$schema"].(string)
		for part, draft := range drafts {
			if strings.Contains(name, part) {
				d.draft = draft
			}
		}
	}
	var all, targets []*expr
	base := &resource{uri: &url.URL{Path: "/"}, root: root, anchors: map[string]*expr{}}
	d.resources["/"] = base
	if err := d.index("", root, base, &all); err != nil {
		return nil, err
	}
	for i := 0; i < len(all); i++ { // it grows by what $refs name at places that are no schema's
		e := all[i]
		ref, ok := e.schema.(*object).values["$ref"].(string)
		if !ok {
			continue
		}
		if err := d.budget.Spend(uriWork * (len(ref) + e.base.size)); err != nil {
			return nil, err
		}
		target, base, err := d.resolve(ref, e.base)
		if err != nil || !target.part {
			continue // refused where it is read
		}
		if target.base == nil {
			if err := d.index(target.at, target.schema, base, &all); err != nil {
				return nil, err
			}
		}
		e.next, targets = append(e.next, target), append(targets, target)
	}
	cyclic := cycles(all)
	for _, e := range targets {
		e.recursive = cyclic[e]
	}
	return d, nil
}

// old reports whether nothing beside a $ref counts.
func (d *document) old() bool { return d.draft > 0 && d.draft <= 7 }

// index checks a schema and all in it, appends them to a list, and notes URIs and anchors. base is
// the resource around it.
func (d *document) index(at string, v any, base *resource, all *[]*expr) error {
	o, ok := v.(*object)
	if _, isFlag := v.(bool); isFlag {
		return nil
	}
	if !ok {
		return &UnsupportedError{Pointer: at, Feature: "no schema"}
	}
	if err := d.budget.Spend(partWork + uriWork*base.size); err != nil {
		return err
	}
	for _, k := range o.keys {
		if c, ok := vocabulary[k]; ok && !c.fits(o.values[k]) {
			return &UnsupportedError{Pointer: at, Feature: fmt.Sprintf("%s, which is no %s,", k, c)}
		}
	}
	e := d.sub(at, v)
	e.base = d.enter(e, o, base)
	*all = append(*all, e)
	for _, k := range o.keys {
		err := vocabulary[k].parts(step(at, k), o.values[k], func(at string, v any) error {
			if err := d.index(at, v, e.base, all); err != nil {
				return err
			}
			if part := d.exprs[at]; part != nil {
				e.next = append(e.next, part)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// enter returns the resource of a schema, a new one if it has a URI of its own, and notes anchors.
func (d *document) enter(e *expr, o *object, base *resource) *resource {
	keyword := "$id"
	if _, ok := o.values[keyword]; d.draft == 3 || d.draft == 4 || d.draft == 0 && e.at == "" && !ok {
		keyword = "id"
	}
	id, _ := o.values[keyword].(string)
	if _, ok := o.values["$ref"]; ok && d.old() {
		id = ""
	}
	var anchors [3]string
	anchors[0], _ = o.values["$anchor"].(string)
	anchors[1], _ = o.values["$dynamicAnchor"].(string)
	if uri, err := url.Parse(id); err == nil && id != "" {
		uri = base.uri.ResolveReference(uri)
		anchors[2], uri.Fragment, uri.RawFragment = uri.Fragment, "", ""
		if name := uri.String(); name != base.uri.String() {
			base = &resource{uri, len(name), e.at, o, map[string]*expr{}}
			d.resources[name] = cmp.Or(d.resources[name], base)
		}
	}
	for _, name := range anchors {
		if name != "" && base.anchors[name] == nil {
			base.anchors[name] = e
		}
	}
	return base
}

// sub returns the schema at a place of the document.
func (d *document) sub(at string, v any) *expr {
	switch v {
	case true:
		return anything
	case false:
		return nothing
	}
	e := d.exprs[at]
	if e == nil {
		e = &expr{doc: d, part: true, at: at, schema: v}
		d.exprs[at] = e
	}
	return e
}

func step(at, key string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// resolve returns the schema that a $ref in a resource names, and the resource where it was found.
func (d *document) resolve(ref string, base *resource) (*expr, *resource, error) {
	uri, err := url.Parse(ref)
	if err != nil {
		return nil, nil, fmt.Errorf("$ref %.60q, which is no URI,", ref)
	}
	full := base.uri.ResolveReference(uri)
	fragment := full.Fragment
	full.Fragment, full.RawFragment = "", ""
	in := d.resources[full.String()]
	if in == nil {
		return nil, nil, fmt.Errorf("$ref %.60q, which is outside of the schema,", ref)
	}
	missing := fmt.Errorf("$ref %.60q, which is not there,", ref)
	if fragment != "" && fragment[0] != '/' {
		if e := in.anchors[fragment]; e != nil {
			return e, in, nil
		}
		return nil, nil, missing
	}
	v, path := in.root, in.at
	for _, key := range strings.Split(fragment, "/")[1:] {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		found := false
		switch of := v.(type) {
		case *object:
			v, found = of.get(key)
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(of) {
				v, found = of[i], true
			}
		}
		if !found {
			return nil, nil, missing
		}
		path = step(path, key)
	}
	return d.sub(path, v), in, nil
}

// cycles returns the schemas that hold or name themselves: those of strongly connected components
// (Tarjan 1972, "Depth-first search and linear graph algorithms").
func cycles(all []*expr) map[*expr]bool {
	number, low, cyclic := map[*expr]int{}, map[*expr]int{}, map[*expr]bool{}
	var stack []*expr
	var visit func(e *expr)
	visit = func(e *expr) {
		at := len(stack)
		number[e] = len(number) + 1
		low[e] = number[e]
		stack = append(stack, e)
		for _, to := range e.next {
			if number[to] == 0 {
				visit(to)
			}
			low[e] = min(low[e], low[to])
			cyclic[e] = cyclic[e] || to == e
		}
		if low[e] < number[e] {
			return
		}
		for _, part := range stack[at:] {
			cyclic[part] = cyclic[part] || len(stack) > at+1
			low[part] = len(all) + 1 // of no component that is still open
		}
		stack = stack[:at]
	}
	for _, e := range all {
		if number[e] == 0 {
			visit(e)
		}
	}
	return cyclic
}
