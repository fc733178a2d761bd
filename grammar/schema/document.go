package schema

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"unmask/grammar"
)

// UnsupportedError is the error of a schema with something that this package does not support, or
// that no schema may have.
type UnsupportedError struct {
	// Pointer is the JSON pointer of the part that has it.
	Pointer string

	// Feature says what it is, such as a keyword.
	Feature string

	// unsettled: a definition was needed while it was being read. It may be possible to read it from
	// elsewhere.
	unsettled bool
}

func (r *UnsupportedError) Error() string {
	return fmt.Sprintf("schema is %s at #%s, want what docs/structured.md lists", r.Feature, r.Pointer)
}

// document is a whole schema.
type document struct {
	root any

	// draft is 3 to 7, 2019 or 2020; 0 if the document does not say.
	draft int

	schemas   map[string]*expr        // by their JSON pointers
	patterns  map[string]*grammar.DFA // by their expressions
	resources map[string]*resource    // by their URIs

	// budget is nil once the schema is compiled.
	budget *grammar.Budget
}

// resource is a part of a document with a URI of its own (2020-12 core, 8.2.1).
type resource struct {
	uri     *url.URL
	uriSize int // in bytes
	pointer string
	root    any
	anchors map[string]*expr
}

// uriCost is the work on a byte of a URI that is resolved. URIs are resolved against those around
// them, so that a long one is copied for each $ref below it.
const uriCost = 8

var drafts = map[string]int{
	"draft-03": 3,
	"draft-04": 4,
	"draft-06": 6,
	"draft-07": 7,
	"2019-09":  2019,
	"2020-12":  2020,
}

// newDocument indexes the schemas of a document, follows the references between them, and finds out
// which are recursive. It loads nothing: a reference out of the document is an error once it is
// used.
func newDocument(root any, budget *grammar.Budget) (*document, error) {
	d := &document{
		root:      root,
		draft:     draftOf(root),
		schemas:   map[string]*expr{},
		patterns:  map[string]*grammar.DFA{},
		resources: map[string]*resource{},
		budget:    budget,
	}
	base := &resource{uri: &url.URL{Path: "/"}, root: root, anchors: map[string]*expr{}}
	d.resources["/"] = base
	var indexed []*expr
	if err := d.indexSchema("", root, base, &indexed); err != nil {
		return nil, err
	}

	// The list grows in the loop: a $ref may name a place that no keyword makes a schema.
	var targets []*expr
	for i := 0; i < len(indexed); i++ {
		e := indexed[i]
		ref, ok := e.value.(*object).values["$ref"].(string)
		if !ok {
			continue
		}
		if err := d.budget.Spend(uriCost * (len(ref) + e.resource.uriSize)); err != nil {
			return nil, err
		}
		target, holder, err := d.resolveRef(ref, e.resource)
		if err != nil || !target.inDocument {
			continue // an error is reported where the $ref is read, if it is
		}
		if target.resource == nil {
			if err := d.indexSchema(target.pointer, target.value, holder, &indexed); err != nil {
				return nil, err
			}
		}
		e.children = append(e.children, target)
		targets = append(targets, target)
	}

	cyclic := findCycles(indexed)
	for _, e := range targets {
		e.recursive = cyclic[e]
	}
	return d, nil
}

// draftOf returns the draft that a document's $schema names, 0 for none.
func draftOf(root any) int {
	o, ok := root.(*object)
	if !ok {
		return 0
	}
	uri, _ := o.values["$schema"].(string)
	for part, draft := range drafts {
		if strings.Contains(uri, part) {
			return draft
		}
	}
	return 0
}

// ignoresBesideRef reports whether nothing beside a $ref counts, as in drafts before 2019-09.
func (d *document) ignoresBesideRef() bool { return d.draft > 0 && d.draft <= 7 }

// indexSchema checks a schema and all in it, appends them to a list, and notes URIs and anchors.
// base is the resource around it.
func (d *document) indexSchema(pointer string, v any, base *resource, indexed *[]*expr) error {
	if _, isFlag := v.(bool); isFlag {
		return nil
	}
	o, ok := v.(*object)
	if !ok {
		return &UnsupportedError{Pointer: pointer, Feature: "no schema"}
	}
	if err := d.budget.Spend(schemaCost + uriCost*base.uriSize); err != nil {
		return err
	}
	for _, k := range o.keys {
		if c, ok := keywords[k]; ok && !c.accepts(o.values[k]) {
			return &UnsupportedError{Pointer: pointer, Feature: fmt.Sprintf("%s, which is no %s,", k, c)}
		}
	}
	e := d.schemaAt(pointer, v)
	e.resource = d.enterResource(e, o, base)
	*indexed = append(*indexed, e)

	addChild := func(pointer string, v any) error {
		if err := d.indexSchema(pointer, v, e.resource, indexed); err != nil {
			return err
		}
		if child := d.schemas[pointer]; child != nil {
			e.children = append(e.children, child)
		}
		return nil
	}
	for _, k := range o.keys {
		err := keywords[k].eachSchema(appendPointer(pointer, k), o.values[k], addChild)
		if err != nil {
			return err
		}
	}
	return nil
}

// enterResource returns the resource of a schema, a new one if it has a URI of its own, and notes
// the schema's anchors there.
func (d *document) enterResource(e *expr, o *object, base *resource) *resource {
	keyword := "$id"
	_, hasID := o.values[keyword]
	if d.draft == 3 || d.draft == 4 || d.draft == 0 && e.pointer == "" && !hasID {
		keyword = "id"
	}
	id, _ := o.values[keyword].(string)
	if _, ok := o.values["$ref"]; ok && d.ignoresBesideRef() {
		id = ""
	}

	var anchors [3]string
	anchors[0], _ = o.values["$anchor"].(string)
	anchors[1], _ = o.values["$dynamicAnchor"].(string)
	if uri, err := url.Parse(id); err == nil && id != "" {
		uri = base.uri.ResolveReference(uri)
		anchors[2] = uri.Fragment // draft 4 to 7
		uri.Fragment = ""
		uri.RawFragment = ""
		if name := uri.String(); name != base.uri.String() {
			base = &resource{
				uri:     uri,
				uriSize: len(name),
				pointer: e.pointer,
				root:    o,
				anchors: map[string]*expr{},
			}
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

// schemaAt returns the schema at a place of the document: always the same for one place.
func (d *document) schemaAt(pointer string, v any) *expr {
	switch v {
	case true:
		return anything
	case false:
		return nothing
	}
	e := d.schemas[pointer]
	if e == nil {
		e = &expr{doc: d, inDocument: true, pointer: pointer, value: v}
		d.schemas[pointer] = e
	}
	return e
}

// appendPointer returns the JSON pointer of a key below another pointer (RFC 6901).
func appendPointer(pointer, key string) string {
	return pointer + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// resolveRef returns the schema that a $ref in a resource names, and the resource where it was
// found. Its errors continue "schema is".
func (d *document) resolveRef(ref string, base *resource) (*expr, *resource, error) {
	uri, err := url.Parse(ref)
	if err != nil {
		return nil, nil, fmt.Errorf("$ref %.60q, which is no URI,", ref)
	}
	full := base.uri.ResolveReference(uri)
	fragment := full.Fragment
	full.Fragment = ""
	full.RawFragment = ""
	r := d.resources[full.String()]
	if r == nil {
		return nil, nil, fmt.Errorf("$ref %.60q, which is outside of the schema,", ref)
	}
	missing := fmt.Errorf("$ref %.60q, which is not there,", ref)
	if fragment != "" && fragment[0] != '/' { // an anchor; otherwise it is a JSON pointer
		e := r.anchors[fragment]
		if e == nil {
			return nil, nil, missing
		}
		return e, r, nil
	}

	v := r.root
	pointer := r.pointer
	for _, key := range strings.Split(fragment, "/")[1:] {
		key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
		isThere := false
		switch parent := v.(type) {
		case *object:
			v, isThere = parent.get(key)
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(parent) {
				v = parent[i]
				isThere = true
			}
		}
		if !isThere {
			return nil, nil, missing
		}
		pointer = appendPointer(pointer, key)
	}
	return d.schemaAt(pointer, v), r, nil
}

// findCycles returns the schemas that hold or name themselves: those of strongly connected
// components (Tarjan 1972, "Depth-first search and linear graph algorithms").
func findCycles(schemas []*expr) map[*expr]bool {
	number := map[*expr]int{} // in the order of visits, from 1
	low := map[*expr]int{}    // the least number that is reached
	cyclic := map[*expr]bool{}
	var stack []*expr
	var visit func(e *expr)
	visit = func(e *expr) {
		height := len(stack)
		number[e] = len(number) + 1
		low[e] = number[e]
		stack = append(stack, e)
		for _, child := range e.children {
			if number[child] == 0 {
				visit(child)
			}
			low[e] = min(low[e], low[child])
			cyclic[e] = cyclic[e] || child == e
		}
		if low[e] < number[e] {
			return
		}
		// e is the first of its component that was visited, and the rest lies above it on the stack.
		for _, part := range stack[height:] {
			cyclic[part] = cyclic[part] || len(stack) > height+1
			low[part] = len(schemas) + 1 // of no component that is still open
		}
		stack = stack[:height]
	}
	for _, e := range schemas {
		if number[e] == 0 {
			visit(e)
		}
	}
	return cyclic
}
