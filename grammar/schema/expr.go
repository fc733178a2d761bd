package schema

import (
	"errors"
	"fmt"
	"slices"
)

// expr is a schema: a part of the document, or made of others. Its shapes are computed when they
// are needed, because definitions may refer to themselves.
type expr struct {
	// One of these.
	doc    *document
	all    []*expr // what all of them allow
	any    []*expr // what any of them allows
	not    *expr
	listed []*shape

	at        string // of a part of the document, its JSON pointer
	schema    any
	recursive bool // the definition refers to itself

	known  [pruned + 1]result // by how far what is empty was left out
	hollow verdict
}

type (
	state   uint8
	verdict uint8
)

const (
	fresh state = iota
	busy
	done
)

const (
	unknown verdict = iota
	hollow          // no value is valid
	solid
)

var (
	anything = &expr{hollow: solid}
	nothing  = &expr{hollow: hollow}
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
	parts := slices.Clone(a.parts())
	for _, e := range b.parts() {
		if !slices.Contains(parts, e) {
			parts = append(parts, e)
		}
	}
	return &expr{all: parts}
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
	return &expr{not: e}
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
		return nil, &Refused{At: e.at, What: "a definition that is itself", open: true}
	case done:
		return r.shapes, r.err
	}
	r.state = busy
	r.shapes, r.err = e.compute(depth)
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
	if refused, ok := errors.AsType[*Refused](r.err); ok && refused.open {
		r.state = fresh // another way to it may be possible
	}
	return r.shapes, r.err
}

func (e *expr) compute(depth int) ([]*shape, error) {
	switch {
	case e.listed != nil:
		return e.listed, nil
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
			if out, err = meet(out, c, depth); err != nil {
				return nil, e.not.refuse(err.Error())
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
			if out, err = meet(out, list, depth); err != nil {
				return nil, part.refuse(err.Error())
			}
		}
		return out, nil
	}
	return e.doc.read(e, depth)
}

// meet returns the intersection of two unions, looked into to a depth.
func meet(a, b []*shape, depth int) ([]*shape, error) {
	var out []*shape
	for _, s := range a {
		for _, t := range b {
			u := and(s, t)
			if u == nil || u.empty(depth) {
				continue
			}
			if len(out) == maxShapes {
				return nil, tooMany()
			}
			out = append(out, u)
		}
	}
	return out, nil
}

// empty reports whether it is easy to see, to some depth, that no value is valid.
func (e *expr) empty(depth int) bool {
	if e.hollow != unknown || depth == 0 {
		return e.hollow == hollow
	}
	list, err := e.to(depth - 1)
	if err != nil {
		return false // the error appears where the schema is used
	}
	for _, s := range list {
		if !s.empty(depth - 1) {
			return false
		}
	}
	e.hollow = hollow
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
	if e.doc == nil {
		for _, part := range slices.Concat([]*expr{e.not}, e.all, e.any) {
			if part != nil {
				return part.refuse(what)
			}
		}
		return &Refused{What: what}
	}
	return &Refused{At: e.at, What: what}
}
