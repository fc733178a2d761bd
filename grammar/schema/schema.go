// Package schema turns JSON Schemas, of the drafts 4 to 2020-12, into automata. A schema becomes a
// union of shapes, sets of values of one type, which can be intersected and subtracted (allOf,
// oneOf, not); what remains becomes one automaton of the texts that the engine may write.
//
// Every value has one text: keys in the order of the schema and further keys after them, one space
// after commas and colons or none, characters as they are but for those that JSON must escape, and
// numbers without exponents where that is possible.
package schema

import (
	"errors"
	"fmt"

	"unmask/grammar"
)

// Options say how values are written and how large an automaton may be. The zero value has spaces,
// and the deepest nesting that fits.
type Options struct {
	Compact bool // no spaces after commas and colons
	Limit   int  // states; 0 means DefaultLimit
	Depth   int  // how often a definition may contain itself; 0: as often as fits
}

// DefaultLimit is the default bound on states over bytes.
const DefaultLimit = 20000

// Bounds narrow a language to what an automaton of bounded size can hold. What is written is still
// valid; some valid values are not written.
type Bounds struct {
	Free      int // depth of arrays and objects in values that the schema leaves free
	Arrays    int // depth of arrays alone there
	Recursion int // how often a definition contains itself
	Text      int // characters of texts with a maxLength
	Items     int // items of arrays with a maxItems
}

// bounds are tried in turn until the automaton is small enough.
var bounds = []Bounds{
	{6, 2, 4, 2000, 300}, {4, 2, 4, 1000, 100}, {3, 2, 3, 600, 40}, {2, 1, 3, 400, 20},
	{1, 1, 2, 200, 10}, {1, 1, 1, 100, 6}, {0, 0, 1, 60, 6}, {0, 0, 0, 16, 3},
}

// Schema is a JSON Schema and its automaton.
type Schema struct {
	*grammar.DFA
	Bounds Bounds // of what is written

	root    *expr
	compact bool
}

// Compile reads a schema. It returns a [*Refused] for what it cannot express, and an error if no
// value is valid or the automaton is too large.
func Compile(data []byte, o Options) (*Schema, error) {
	root, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("schema is not JSON: %w", err)
	}
	limit := o.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	s := &Schema{root: newDocument(root, limit).sub("", root), compact: o.Compact}
	if _, err := s.root.union(); err != nil {
		return nil, err
	}
	for _, b := range bounds {
		if o.Depth > 0 {
			b.Recursion = o.Depth
		}
		c := newCompiler(b, limit, o.Compact)
		s.Bounds = b
		if s.DFA, err = c.schema(s.root); err == nil && !s.Empty() || !tooLarge(err) && err != nil {
			break
		}
	}
	if err == nil && s.Empty() {
		err = fmt.Errorf("schema is one that no value satisfies, want one that some value does")
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func tooLarge(err error) bool {
	_, ok := errors.AsType[*grammar.TooLarge](err)
	return ok
}

// Object returns the automaton of any JSON object.
func Object(o Options) (*grammar.DFA, error) {
	s, err := Compile([]byte(`{"type": "object"}`), o)
	if err != nil {
		return nil, err
	}
	return s.DFA, nil
}
