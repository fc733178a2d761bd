package schema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// expr is a schema: a part of the document, or made of others. Its shapes are computed when they
// are needed, because definitions may refer to themselves.
type expr struct {
	doc *document // of the parts that it is made of; nil for constants

	// One of these.
	part   bool    // of the document
	all    []*expr // what all of them allow
	any    []*expr // what any of them allows
	not    *expr
	listed []*shape

	at        string // of a part of the document, its JSON pointer
	schema    any
	base      *resource // around it
	next      []*expr   // that it holds or names
	recursive bool      // the definition refers to itself

	known  [pruned + 1]result // by how far what is empty was left out
	hollow bool               // no value is valid

	with    map[*expr]*expr // what both returned for it and another
	without *expr           // what other returned
}

// partWork is the work on a part of a schema, beside that on its texts and keys.
const partWork = 256

// spend takes work on a schema from the document's budget.
func (e *expr) spend(n int) error {
	if e.doc == nil {
		return nil
	}
	return e.doc.budget.Spend(n)
}

type state uint8

const (
	fresh state = iota
	busy
	done
)

var (
	anything = &expr{}
	nothing  = &expr{hollow: true}
)

func init() {
	for depth := range anything.known {
		anything.known[depth] = result{state: done, shapes: all()}
		nothing.known[depth] = result{state: done}
	}
}

// result is the union of shapes that a schema is.
type result struct {
	state  state
	shapes []*shape
	err    error
}

// pruned is the depth to which shapes are looked into to see whether they are empty.
const pruned = 3

func constant(v any) *expr {
	if s := exactly(v); s != nil {
		return &expr{listed: []*shape{s}}
	}
	return nothing
}

// both returns the schema of what two schemas allow.
func both(a, b *expr) *expr {
	switch {
	case a == b || b == anything:
		return a
	case a == anything:
		return b
	case a == nothing || b == nothing:
		return nothing
	}
	e := a.with[b]
	if e != nil {
		return e
	}
	e = &expr{doc: cmp.Or(a.doc, b.doc), all: slices.Clone(a.parts())}
	for _, p := range b.parts() {
		if !slices.Contains(e.all, p) {
			e.all = append(e.all, p)
		}
	}
	if a.with == nil {
		a.with = map[*expr]*expr{}
	}
	a.with[b] = e
	return e
}

func (e *expr) parts() []*expr {
	if e.all != nil {
		return e.all
	}
	return []*expr{e}
}

// other returns the schema of what e does not allow.
func other(e *expr) *expr {
	switch {
	case e == anything:
		return nothing
	case e == nothing:
		return anything
	case e.not != nil:
		return e.not
	}
	if e.without == nil {
		e.without = &expr{doc: e.doc, not: e}
	}
	return e.without
}

// maxShapes bounds the alternatives of one schema.
const maxShapes = 400

func tooMany() error { return fmt.Errorf("one of more than %d alternatives", maxShapes) }

// union returns the shapes of a schema.
func (e *expr) union() ([]*shape, error) { return e.to(pruned) }

// to is union, with shapes looked into to a depth. Looking into them needs the shapes of what they
// hold to less depth, so that it ends for definitions that contain themselves.
func (e *expr) to(depth int) ([]*shape, error) {
	r := &e.known[depth]
	switch r.state {
	case busy:
		return nil, &UnsupportedError{Pointer: e.at, Feature: "a definition that is itself", open: true}
	case done:
		return r.shapes, r.err
	}
	r.state = busy
	if r.err = e.spend(partWork); r.err == nil {
		r.shapes, r.err = e.compute(depth)
	}
	if e.recursive {
		r.shapes = slices.Clone(r.shapes)
		for i, s := range r.shapes {
			if s.kind == array || s.kind == dict {
				c := *s
				c.via = append(slices.Clone(s.via), e)
				r.shapes[i] = &c
			}
		}
	}
	r.state = done
	if refused, ok := errors.AsType[*UnsupportedError](r.err); ok && refused.open {
		r.state = fresh // another way to it may be possible
	}
	return r.shapes, r.err
}

func (e *expr) compute(depth int) ([]*shape, error) {
	switch {
	case e.part:
		return e.doc.read(e, depth)
	case e.not != nil && depth == 0:
		return all(), nil // what it leaves out is not exact there: see oneOf
	case e.not != nil:
		list, err := e.not.to(depth)
		if err != nil {
			return nil, err
		}
		out := all()
		for _, s := range list {
			c, err := complement(s)
			if err != nil {
				return nil, e.not.refuse(err.Error())
			}
			if out, err = e.meet(out, c, depth); err != nil {
				return nil, err
			}
		}
		return out, nil
	case e.any != nil:
		var out []*shape
		for _, part := range e.any {
			list, err := part.to(depth)
			if err != nil {
				return nil, err
			}
			if out = append(out, list...); len(out) > maxShapes {
				return nil, part.refuse(tooMany().Error())
			}
		}
		return out, nil
	case e.all != nil:
		out := all()
		for _, part := range e.all {
			list, err := part.to(depth)
			if err != nil {
				return nil, err
			}
			if out, err = e.meet(out, list, depth); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return e.listed, nil
}

// meet returns the intersection of two unions of shapes of a schema, looked into to a depth.
func (e *expr) meet(a, b []*shape, depth int) ([]*shape, error) {
	var out []*shape
	for _, s := range a {
		for _, t := range b {
			if err := e.spend(s.work() + t.work()); err != nil {
				return nil, err
			}
			u := and(s, t)
			if u == nil || u.empty(depth) {
				continue
			}
			if len(out) == maxShapes {
				return nil, e.refuse(tooMany().Error())
			}
			out = append(out, u)
		}
	}
	return out, nil
}

// empty reports whether it is easy to see, to some depth, that no value is valid.
func (e *expr) empty(depth int) bool {
	if e.hollow || e == anything || depth == 0 {
		return e.hollow
	}
	list, err := e.to(depth - 1)
	if err == nil {
		err = e.spend(1 + len(list))
	}
	if err != nil {
		return false // the error appears where the schema is used
	}
	for _, s := range list {
		if !s.empty(depth - 1) {
			return false
		}
	}
	e.hollow = true
	return true
}

func (s *shape) empty(depth int) bool {
	switch s.kind {
	case array:
		for i := range min(s.minItems, len(s.prefix)) {
			if s.prefix[i].empty(depth) {
				return true
			}
		}
		return s.minItems > len(s.prefix) && s.items.empty(depth)
	case dict:
		for k := range s.required {
			if s.of(k).empty(depth) {
				return true
			}
		}
	}
	return false
}

// refuse returns the error of a schema that cannot be used.
func (e *expr) refuse(what string) error {
	if !e.part {
		for _, part := range slices.Concat([]*expr{e.not}, e.all, e.any) {
			if part != nil {
				return part.refuse(what)
			}
		}
		return &UnsupportedError{Feature: what}
	}
	return &UnsupportedError{Pointer: e.at, Feature: what}
}
