package schema

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"unmask/grammar"
)

// Refused is the error of a schema with something that this package does not do.
type Refused struct {
	At   string // JSON pointer
	What string

	open bool // a definition was needed while it was being read
}

func (r *Refused) Error() string {
	return fmt.Sprintf("schema is %s at #%s, want what docs/structured.md lists", r.What, r.At)
}

// document is a whole schema.
type document struct {
	root    any
	id      string
	old     bool // draft 7 or earlier: nothing beside $ref counts
	exprs   map[string]*expr
	search  map[string]*grammar.DFA
	anchors map[string]*expr // by name; nil until one is asked for
	budget  *grammar.Budget
}

func newDocument(root any, budget *grammar.Budget) (*document, error) {
	d := &document{root: root, exprs: map[string]*expr{}, search: map[string]*grammar.DFA{},
		budget: budget}
	if o, ok := root.(*object); ok {
		for _, k := range []string{"$id", "id"} {
			if id, ok := o.values[k].(string); ok && d.id == "" {
				d.id = strings.TrimSuffix(id, "#")
			}
		}
		draft, _ := o.values["$schema"].(string)
		for _, v := range []string{"draft-03", "draft-04", "draft-06", "draft-07"} {
			d.old = d.old || strings.Contains(draft, v)
		}
	}
	cyclic, err := d.cyclic()
	for at := range cyclic {
		d.exprs[at].recursive = true
	}
	return d, err
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

// resolve returns the schema that a $ref names.
func (d *document) resolve(ref string) (*expr, error) {
	at, ok := strings.CutPrefix(strings.TrimPrefix(ref, d.id), "#")
	if ref == d.id && d.id != "" {
		at, ok = "", true
	}
	if plain, err := url.PathUnescape(at); err == nil {
		at = plain
	}
	if !ok {
		return nil, fmt.Errorf("$ref %.60q, which is outside of the schema,", ref)
	}
	if at != "" && at[0] != '/' {
		return d.anchor(at, ref)
	}
	v, path := d.root, ""
	for _, key := range strings.Split(at, "/")[1:] {
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
			return nil, fmt.Errorf("$ref %.60q, which is not there,", ref)
		}
		path = step(path, key)
	}
	return d.sub(path, v), nil
}

// anchor returns the schema with a name of its own.
func (d *document) anchor(name, ref string) (*expr, error) {
	if d.anchors == nil {
		d.anchors = map[string]*expr{}
		walk(d.root, "", func(at string, o *object) {
			for k, mark := range map[string]string{"$anchor": "", "$id": "#", "id": "#"} {
				text, _ := o.values[k].(string)
				text, ok := strings.CutPrefix(text, mark)
				if _, known := d.anchors[text]; ok && !known {
					d.anchors[text] = d.sub(at, o)
				}
			}
		})
	}
	if e := d.anchors[name]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("$ref %.60q, which is not there,", ref)
}

// walk visits all objects of a document.
func walk(v any, at string, visit func(at string, o *object)) {
	switch v := v.(type) {
	case *object:
		visit(at, v)
		for _, k := range v.keys {
			if k != "enum" && k != "const" && k != "default" && k != "examples" {
				walk(v.values[k], step(at, k), visit)
			}
		}
	case []any:
		for i, item := range v {
			walk(item, step(at, strconv.Itoa(i)), visit)
		}
	}
}

// cyclic returns the places that $refs name and that refer to themselves.
func (d *document) cyclic() (map[string]bool, error) {
	targets := map[string]*expr{}
	visited := 0
	refs := func(v any) (list []string) {
		walk(v, "", func(_ string, o *object) {
			visited++
			if ref, ok := o.values["$ref"].(string); ok {
				if e, err := d.resolve(ref); err == nil && e.doc != nil {
					targets[e.at] = e
					list = append(list, e.at)
				}
			}
		})
		return list
	}
	refs(d.root)
	out := map[string][]string{}
	for at, e := range targets {
		out[at] = refs(e.schema)
		if err := d.budget.Spend(partWork * visited); err != nil {
			return nil, err
		}
		visited = 0
	}
	cyclic := map[string]bool{}
	for at := range targets {
		seen := map[string]bool{}
		queue := slices.Clone(out[at])
		for ; len(queue) > 0 && !seen[at]; queue = queue[1:] {
			if err := d.budget.Spend(partWork + len(out[queue[0]])); err != nil {
				return nil, err
			}
			if !seen[queue[0]] {
				seen[queue[0]] = true
				queue = append(queue, out[queue[0]]...)
			}
		}
		if seen[at] {
			cyclic[at] = true
		}
	}
	return cyclic, nil
}
