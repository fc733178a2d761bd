package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
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
	d := &document{root: root, exprs: map[string]*expr{}, search: map[string]*grammar.DFA{}, limit: limit}
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

// read returns the shapes of a part of the document.
func (d *document) read(e *expr) ([]*shape, error) {
	o, ok := e.schema.(*object)
	if !ok {
		return nil, e.refuse("no schema")
	}
	if ref, ok := o.values["$ref"]; ok {
		name, _ := ref.(string)
		target, err := d.resolve(name)
		if err != nil {
			return nil, e.refuse(err.Error())
		}
		list, err := target.union()
		if err != nil || d.old {
			return list, err
		}
		rest, err := d.keywords(e, o)
		if err != nil {
			return nil, err
		}
		if list, err = meet(list, rest); err != nil {
			return nil, e.refuse(err.Error())
		}
		return list, nil
	}
	return d.keywords(e, o)
}

// unsupported are keywords that change what is valid and that are refused.
var unsupported = []string{"unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef",
	"minContains", "maxContains", "extends", "disallow", "divisibleBy"}

func (d *document) keywords(e *expr, o *object) ([]*shape, error) {
	for _, k := range unsupported {
		if _, ok := o.get(k); ok {
			return nil, e.refuse(k)
		}
	}
	list, err := d.own(e, o)
	if err != nil {
		return nil, err
	}
	more, err := d.combined(e, o)
	if err != nil {
		return nil, err
	}
	for _, part := range more {
		next, err := part.union()
		if err != nil {
			return nil, err
		}
		if list, err = meet(list, next); err != nil {
			return nil, e.refuse(err.Error())
		}
	}
	return list, nil
}

// own returns the shapes that a schema's own keywords describe: all but those that hold schemas of
// the same value.
func (d *document) own(e *expr, o *object) ([]*shape, error) {
	types, err := readTypes(o)
	if err != nil {
		return nil, e.refuse(err.Error())
	}
	list, err := listedValues(o)
	if err != nil {
		return nil, e.refuse(err.Error())
	}
	var own []*shape
	r := &reader{d: d, e: e, o: o}
	for k := range kinds {
		s := every(k)
		switch {
		case types != nil && types[k] == no:
			continue
		case types != nil && types[k] == integers:
			s.whole = true
		}
		possible := r.shape(s)
		if r.err != nil {
			return nil, r.err
		}
		if possible {
			own = append(own, s)
		}
	}
	if list == nil {
		return own, nil
	}
	out, err := meet(own, list)
	if err != nil {
		return nil, e.refuse(err.Error())
	}
	return joinTexts(out), nil
}

// joinTexts makes one shape of all that are lists of texts.
func joinTexts(list []*shape) []*shape {
	var out []*shape
	var one *shape
	for _, s := range list {
		if s.kind == text && s.in != nil {
			if one != nil {
				one.in = append(one.in, s.in...)
				continue
			}
			one = s
		}
		out = append(out, s)
	}
	return out
}

type allowed uint8

const (
	no allowed = iota
	yes
	integers
)

// readTypes returns what a schema's type allows, nil without one.
func readTypes(o *object) (*[kinds]allowed, error) {
	v, ok := o.get("type")
	if !ok {
		return nil, nil
	}
	names, ok := v.([]any)
	if !ok {
		names = []any{v}
	}
	var out [kinds]allowed
	if o.values["nullable"] == true {
		names = append(slices.Clone(names), "null")
	}
	for _, n := range names {
		switch n {
		case "null":
			out[null] = yes
		case "boolean":
			out[boolean] = yes
		case "number":
			out[number] = yes
		case "integer":
			if out[number] == no {
				out[number] = integers
			}
		case "string":
			out[text] = yes
		case "array":
			out[array] = yes
		case "object":
			out[dict] = yes
		case "any":
			return nil, nil // draft 3
		default:
			return nil, fmt.Errorf("type %.60q", fmt.Sprint(n))
		}
	}
	return &out, nil
}

// listedValues returns the shapes of enum and const, nil without either.
func listedValues(o *object) ([]*shape, error) {
	var list []*shape
	if v, ok := o.get("enum"); ok {
		values, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("enum, which is no list,")
		}
		list = []*shape{}
		for i, v := range values {
			if slices.ContainsFunc(values[:i], func(w any) bool { return equal(v, w) }) {
				continue
			}
			if s := exactly(v); s != nil {
				list = append(list, s)
			}
		}
		list = joinTexts(list)
		if len(list) > maxShapes {
			return nil, tooMany()
		}
	}
	if v, ok := o.get("const"); ok {
		s := exactly(v)
		if s == nil {
			return []*shape{}, nil
		}
		if list == nil {
			return []*shape{s}, nil
		}
		return meet(list, []*shape{s})
	}
	return list, nil
}

// reader reads the keywords of one kind of values into a shape.
type reader struct {
	d   *document
	e   *expr
	o   *object
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = r.e.refuse(what)
	}
}

// shape adds the keywords to a shape, and reports whether any value remains.
func (r *reader) shape(s *shape) bool {
	switch s.kind {
	case number:
		return r.numbers(s)
	case text:
		r.texts(s)
		return s.most < 0 || s.least <= s.most
	case array:
		r.arrays(s)
		return s.mostItems < 0 || s.leastItems <= s.mostItems
	case dict:
		r.dicts(s)
		return s.mostKeys < 0 || s.leastKeys <= s.mostKeys
	}
	return true
}

// count reads a whole number, or returns otherwise.
func (r *reader) count(key string, otherwise int) int {
	v, ok := r.o.get(key)
	if !ok {
		return otherwise
	}
	n, ok := v.(json.Number)
	x, valid := new(big.Rat), false
	if ok {
		x, valid = rational(n)
	}
	if !valid || !x.IsInt() || x.Sign() < 0 {
		r.fail(key + ", which is no count,")
		return otherwise
	}
	if !x.Num().IsInt64() || x.Num().Int64() > 1<<30 {
		return 1 << 30
	}
	return int(x.Num().Int64())
}

func (r *reader) rational(key string) *big.Rat {
	v, ok := r.o.get(key)
	if !ok {
		return nil
	}
	n, ok := v.(json.Number)
	if ok {
		if x, ok := rational(n); ok {
			return x
		}
	}
	r.fail(key + ", which is no number that can be written out,")
	return nil
}

func (r *reader) numbers(s *shape) bool {
	one := func(n numbers) bool {
		var ok bool
		s.numbers, ok = s.numbers.and(n)
		return ok
	}
	ok := true
	bound := func(inclusive, exclusive string, set func(x *big.Rat, open bool) numbers) {
		open, flag := r.o.values[exclusive].(bool)
		if _, there := r.o.get(inclusive); there {
			if x := r.rational(inclusive); x != nil {
				ok = one(set(x, open)) && ok
			}
		}
		if _, there := r.o.get(exclusive); there && !flag {
			if x := r.rational(exclusive); x != nil {
				ok = one(set(x, true)) && ok
			}
		}
	}
	bound("minimum", "exclusiveMinimum", func(x *big.Rat, open bool) numbers {
		return numbers{low: x, lowOpen: open}
	})
	bound("maximum", "exclusiveMaximum", func(x *big.Rat, open bool) numbers {
		return numbers{high: x, highOpen: open}
	})
	if x := r.rational("multipleOf"); x != nil {
		if x.Sign() <= 0 {
			r.fail("multipleOf, which is not positive,")
			return false
		}
		ok = one(numbers{multiples: []*big.Rat{x}}) && ok
	}
	return ok
}

func (r *reader) texts(s *shape) {
	s.least, s.most = r.count("minLength", 0), r.count("maxLength", -1)
	if v, ok := r.o.get("pattern"); ok {
		if p, ok := v.(string); ok {
			if m := r.search(p); m != nil {
				s.match = append(s.match, m)
			}
		} else {
			r.fail("pattern, which is no text,")
		}
	}
	if name, ok := r.o.values["format"].(string); ok {
		m, err := format(name)
		if err != nil {
			r.fail("format " + name)
		} else if m != nil {
			s.match = append(s.match, m)
		}
	}
}

// search returns the automaton of a pattern.
func (r *reader) search(p string) *grammar.DFA {
	if m := r.d.search[p]; m != nil {
		return m
	}
	m, err := grammar.Search(p, r.d.limit)
	if err != nil {
		r.fail(fmt.Sprintf("pattern %.60q (%v)", p, err))
		return nil
	}
	r.d.search[p] = m
	return m
}

func (r *reader) arrays(s *shape) {
	s.leastItems, s.mostItems = r.count("minItems", 0), r.count("maxItems", -1)
	rest := "items"
	for _, k := range []string{"prefixItems", "items"} {
		if list, ok := r.o.values[k].([]any); ok {
			for i, v := range list {
				s.prefix = append(s.prefix, r.d.sub(step(step(r.e.at, k), strconv.Itoa(i)), v))
			}
			if k == "items" {
				rest = "additionalItems"
			}
		}
	}
	if v, ok := r.o.get(rest); ok {
		s.items = r.d.sub(step(r.e.at, rest), v)
	}
	if v, ok := r.o.get("contains"); ok {
		s.some = append(s.some, r.d.sub(step(r.e.at, "contains"), v))
	}
	if r.o.values["uniqueItems"] == true {
		s.distinct, s.distinctReadsFrom = true, r.e.at
	}
}

func (r *reader) dicts(s *shape) {
	s.leastKeys, s.mostKeys = r.count("minProperties", 0), r.count("maxProperties", -1)
	s.props, s.required = map[string]*expr{}, map[string]bool{}
	if props, ok := r.o.values["properties"].(*object); ok {
		for _, k := range props.keys {
			s.keys = append(s.keys, k)
			s.props[k] = r.d.sub(step(step(r.e.at, "properties"), k), props.values[k])
		}
	}
	if list, ok := r.o.values["required"].([]any); ok {
		for _, k := range list {
			if name, ok := k.(string); ok {
				s.required[name] = true
			}
		}
	}
	one := rule{rest: anything}
	if v, ok := r.o.get("additionalProperties"); ok {
		one.rest = r.d.sub(step(r.e.at, "additionalProperties"), v)
	}
	if patterns, ok := r.o.values["patternProperties"].(*object); ok {
		for _, p := range patterns.keys {
			m := r.search(p)
			if m == nil {
				return
			}
			value := r.d.sub(step(step(r.e.at, "patternProperties"), p), patterns.values[p])
			one.patterns = append(one.patterns, pattern{m, value})
			for _, k := range s.keys {
				if m.Match(k) {
					s.props[k] = both(s.props[k], value)
				}
			}
		}
	}
	if one.rest != anything || len(one.patterns) > 0 {
		s.rules = []rule{one}
	}
	if v, ok := r.o.get("propertyNames"); ok {
		s.names = []*expr{r.d.sub(step(r.e.at, "propertyNames"), v)}
	}
}
