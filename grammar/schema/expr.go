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
	// doc is the document of the parts that the schema is made of, nil for constants.
	doc *document

	// What the schema is, one of these five.
	inDocument bool     // a part of the document
	all        []*expr  // what all of them allow
	any        []*expr  // what any of them allows
	not        *expr    // what it does not allow
	constant   []*shape // these shapes

	// Of a part of the document: its JSON pointer, its JSON value, the resource around it, the schemas
	// that it holds or names, and whether it is a definition that refers to itself.
	pointer   string
	value     any
	resource  *resource
	children  []*expr
	recursive bool

	// results are the shapes by the depth to which empty ones were left out.
	results [fullDepth + 1]result

	// isEmpty is true once it is known that no value is valid.
	isEmpty bool

	// intersections and negation are what intersect and negate returned for the schema. They are kept
	// so that equal schemas are one pointer, by which the compiler recognises them.
	intersections map[*expr]*expr
	negation      *expr
}

// schemaCost is the work on a schema, beside that on its texts and keys.
const schemaCost = 256

// spend takes work on a schema from the document's budget.
func (e *expr) spend(n int) error {
	if e.doc == nil {
		return nil
	}
	return e.doc.budget.Spend(n)
}

// anything is the schema true, which allows all values, and nothing is the schema false.
var (
	anything = &expr{}
	nothing  = &expr{isEmpty: true}
)

func init() {
	for depth := range anything.results {
		anything.results[depth] = result{state: computed, shapes: allShapes()}
		nothing.results[depth] = result{state: computed}
	}
}

// result is the union of shapes that a schema is.
type result struct {
	state  resultState
	shapes []*shape
	err    error
}

type resultState uint8

const (
	notComputed resultState = iota
	computing
	computed
)

// fullDepth is the depth to which shapes are looked into to see whether they are empty. An
// alternative without values that lies deeper is found by the compiler.
const fullDepth = 3

// exprOfValue returns the schema of one value.
func exprOfValue(v any) *expr {
	s := shapeOfValue(v)
	if s == nil {
		return nothing
	}
	return &expr{constant: []*shape{s}}
}

// intersect returns the schema of what two schemas allow.
func intersect(a, b *expr) *expr {
	switch {
	case a == b || b == anything:
		return a
	case a == anything:
		return b
	case a == nothing || b == nothing:
		return nothing
	}
	// The shapes of an intersection are computed from flat lists, so that a AND (b AND c) and
	// (a AND b) AND c need no nesting, and a schema that both sides have counts once.
	e := a.intersections[b]
	if e != nil {
		return e
	}
	e = &expr{doc: cmp.Or(a.doc, b.doc), all: slices.Clone(a.conjuncts())}
	for _, part := range b.conjuncts() {
		if !slices.Contains(e.all, part) {
			e.all = append(e.all, part)
		}
	}
	if a.intersections == nil {
		a.intersections = map[*expr]*expr{}
	}
	a.intersections[b] = e
	return e
}

// conjuncts returns the schemas whose intersection e is.
func (e *expr) conjuncts() []*expr {
	if e.all != nil {
		return e.all
	}
	return []*expr{e}
}

// negate returns the schema of what e does not allow.
func negate(e *expr) *expr {
	switch {
	case e == anything:
		return nothing
	case e == nothing:
		return anything
	case e.not != nil:
		return e.not
	}
	if e.negation == nil {
		e.negation = &expr{doc: e.doc, not: e}
	}
	return e.negation
}

// maxShapes bounds the alternatives of one schema.
const maxShapes = 400

// errTooManyShapes returns the error of a schema whose alternatives multiply.
func errTooManyShapes() error { return fmt.Errorf("one of more than %d alternatives", maxShapes) }

// shapes returns the union of shapes that a schema is.
func (e *expr) shapes() ([]*shape, error) { return e.shapesTo(fullDepth) }

// shapesTo is shapes with empty ones left out to a depth only. Looking into a shape needs the
// shapes of what it holds to less depth, so that it ends for definitions that contain themselves.
func (e *expr) shapesTo(depth int) ([]*shape, error) {
	r := &e.results[depth]
	switch r.state {
	case computing:
		return nil, &UnsupportedError{
			Pointer:   e.pointer,
			Feature:   "a definition that is itself",
			unsettled: true,
		}
	case computed:
		return r.shapes, r.err
	}

	r.state = computing
	r.err = e.spend(schemaCost)
	if r.err == nil {
		r.shapes, r.err = e.computeShapes(depth)
	}
	if e.recursive {
		r.shapes = withDefinition(r.shapes, e)
	}
	r.state = computed
	if refusal, ok := errors.AsType[*UnsupportedError](r.err); ok && refusal.unsettled {
		r.state = notComputed // another way to it may be possible
	}
	return r.shapes, r.err
}

// withDefinition returns shapes in which arrays and objects remember that they came from a
// recursive definition. Only these count: a definition that contains itself does so inside of one
// of them.
func withDefinition(shapes []*shape, definition *expr) []*shape {
	out := slices.Clone(shapes)
	for i, s := range out {
		if s.kind == arrayKind || s.kind == objectKind {
			marked := *s
			marked.definitions = append(slices.Clone(s.definitions), definition)
			out[i] = &marked
		}
	}
	return out
}

// computeShapes returns the shapes of a schema by what it is made of.
func (e *expr) computeShapes(depth int) ([]*shape, error) {
	switch {
	case e.inDocument:
		return e.doc.readPart(e, depth)
	case e.not != nil:
		return e.negatedShapes(depth)
	case e.any != nil:
		var out []*shape
		for _, part := range e.any {
			list, err := part.shapesTo(depth)
			if err != nil {
				return nil, err
			}
			out = append(out, list...)
			if len(out) > maxShapes {
				return nil, part.unsupported(errTooManyShapes().Error())
			}
		}
		return out, nil
	case e.all != nil:
		out := allShapes()
		for _, part := range e.all {
			list, err := part.shapesTo(depth)
			if err != nil {
				return nil, err
			}
			out, err = e.intersectUnions(out, list, depth)
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return e.constant, nil
}

// negatedShapes returns the shapes of what e.not does not allow. At depth 0 that is all values: the
// shapes of e.not may be too many there (see exactlyOneOf), and their complement too few.
func (e *expr) negatedShapes(depth int) ([]*shape, error) {
	if depth == 0 {
		return allShapes(), nil
	}
	list, err := e.not.shapesTo(depth)
	if err != nil {
		return nil, err
	}
	out := allShapes()
	for _, s := range list {
		complement, err := complementOf(s)
		if err != nil {
			return nil, e.not.unsupported(err.Error())
		}
		out, err = e.intersectUnions(out, complement, depth)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// intersectUnions returns the intersection of two unions of shapes, without those that are seen to
// be empty at a depth.
func (e *expr) intersectUnions(a, b []*shape, depth int) ([]*shape, error) {
	var out []*shape
	for _, s := range a {
		for _, t := range b {
			if err := e.spend(s.cost() + t.cost()); err != nil {
				return nil, err
			}
			common := intersectShapes(s, t)
			if common == nil || common.seemsEmpty(depth) {
				continue
			}
			if len(out) == maxShapes {
				return nil, e.unsupported(errTooManyShapes().Error())
			}
			out = append(out, common)
		}
	}
	return out, nil
}

// seemsEmpty reports whether it is easy to see, to some depth, that no value is valid.
func (e *expr) seemsEmpty(depth int) bool {
	if e.isEmpty || e == anything || depth == 0 {
		return e.isEmpty
	}
	list, err := e.shapesTo(depth - 1)
	if err == nil {
		err = e.spend(1 + len(list))
	}
	if err != nil {
		return false // the error appears where the schema is used
	}
	for _, s := range list {
		if !s.seemsEmpty(depth - 1) {
			return false
		}
	}
	e.isEmpty = true
	return true
}

// seemsEmpty reports whether a shape must hold something that no value satisfies.
func (s *shape) seemsEmpty(depth int) bool {
	switch s.kind {
	case arrayKind:
		for i := range min(s.minItems, len(s.prefix)) {
			if s.prefix[i].seemsEmpty(depth) {
				return true
			}
		}
		return s.minItems > len(s.prefix) && s.items.seemsEmpty(depth)
	case objectKind:
		for k := range s.required {
			if s.valueSchema(k).seemsEmpty(depth) {
				return true
			}
		}
	}
	return false
}

// unsupported returns the error of a schema that cannot be used. It names a part of the document,
// because that is what its author can find.
func (e *expr) unsupported(feature string) error {
	if e.inDocument {
		return &UnsupportedError{Pointer: e.pointer, Feature: feature}
	}
	for _, part := range slices.Concat([]*expr{e.not}, e.all, e.any) {
		if part != nil {
			return part.unsupported(feature)
		}
	}
	return &UnsupportedError{Feature: feature}
}
