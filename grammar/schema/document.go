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
	root   any
	id     string
	old    bool // draft 7 or earlier: nothing beside $ref counts
	exprs  map[string]*expr
	search map[string]*grammar.DFA
	limit  int
}

func newDocument(root any, limit int) *document {
	d := &document{root: root, exprs: map[string]*expr{}, search: map[string]*grammar.DFA{},
		limit: limit}
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
	for at := range d.cyclic() {
		d.exprs[at].recursive = true
	}
	return d
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
		e = &expr{doc: d, at: at, schema: v}
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
func (d *document) anchor(name, ref string) (found *expr, err error) {
	walk(d.root, "", func(at string, o *object) {
		for k, want := range map[string]string{"$anchor": name, "$id": "#" + name, "id": "#" + name} {
			if o.values[k] == want && found == nil {
				found = d.sub(at, o)
			}
		}
	})
	if found == nil {
		return nil, fmt.Errorf("$ref %.60q, which is not there,", ref)
	}
	return found, nil
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
func (d *document) cyclic() map[string]bool {
	targets := map[string]*expr{}
	refs := func(v any) (list []string) {
		walk(v, "", func(_ string, o *object) {
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
	}
	cyclic := map[string]bool{}
	for at := range targets {
		seen := map[string]bool{}
		queue := slices.Clone(out[at])
		for ; len(queue) > 0 && !seen[at]; queue = queue[1:] {
			if !seen[queue[0]] {
				seen[queue[0]] = true
				queue = append(queue, out[queue[0]]...)
			}
		}
		if seen[at] {
			cyclic[at] = true
		}
	}
	return cyclic
}
