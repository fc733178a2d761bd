// Package schema turns JSON Schemas, of the drafts 4 to 2020-12, into automata. A schema becomes a
// union of shapes, sets of values of one type, which can be intersected and subtracted (allOf,
// oneOf, not); what remains becomes one automaton of the texts that the engine may write.
//
// Every value has one text: keys in the order of the schema and further keys after them, one space
// after commas and colons or none, characters as they are but for those that JSON must escape, and
// numbers without exponents where that is possible.
package schema

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"unmask/grammar"
)

// Options say how values are written and how large an automaton may be. The zero value has spaces,
// and the deepest nesting that fits.
type Options struct {
	Compact   bool // no spaces after commas and colons
	MaxStates int  // states; 0 means DefaultLimit
	Recursion int  // how often a definition may contain itself; 0: as often as fits
	// Budget is of the work; nil: one of its own.
	Budget *grammar.Budget
}

// DefaultLimit is the default bound on states over bytes.
const DefaultLimit = 1 << 15

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
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	budget := cmp.Or(o.Budget, grammar.NewBudget(context.Background(), 0))
	budget = budget.WithStates(cmp.Or(o.MaxStates, DefaultLimit))
	d, err := newDocument(root, budget)
	if err != nil {
		return nil, err
	}
	s := &Schema{root: d.sub("", root), compact: o.Compact}
	if _, err := s.root.union(); err != nil {
		return nil, err
	}
	if err := s.build(budget, o.Recursion); err != nil {
		return nil, err
	}
	return s, nil
}

// build makes the automaton within the widest bounds that fit. How large it is shows once it is
// made, so bounds are chosen for a larger or smaller number of states where the first were wrong.
func (s *Schema) build(budget *grammar.Budget, depth int) error {
	limit := budget.States()
	widest, narrowest := bounds[len(bounds)-1].to(depth), bounds[0].to(depth)
	c := newCompiler(budget, s.compact)
	room, widened, tries := roomy*limit, false, 2
	for {
		b, size := c.choose(s.root, depth, room)
		if b == s.Bounds && s.DFA != nil {
			break
		}
		if b == s.Bounds { // too large
			room = room * 2 / 3
			continue
		}
		c.within(b, false)
		d, err := c.schema(s.root)
		if err != nil && s.DFA != nil {
			if room = size / 2; tries == 0 {
				break
			}
			tries--
			continue
		}
		if _, large := errors.AsType[*grammar.TooLargeError](err); large && b != narrowest {
			s.Bounds, room = b, min(room, size)*2/3
			continue
		}
		if err != nil {
			return err
		}
		s.DFA, s.Bounds = d, b
		if widened || b == widest || 2*d.States() > limit {
			break
		}
		room, widened = size*limit/max(d.States(), 1)*3/4, true
	}
	if s.DFA != nil && s.Bounds != widest {
		s.deepen(c)
	}
	if s.root.doc != nil {
		s.root.doc.budget = nil // it is compiled
	}
	switch {
	case s.Empty() && s.Bounds != widest:
		return &grammar.TooLargeError{Limit: limit}
	case s.Empty():
		return fmt.Errorf("no value satisfies the schema, want one that some value does")
	}
	return nil
}

// deepen widens bounds once more, each as far as a quarter more states seem to allow. First come
// free values that few schemas are around: those of further keys of the outermost object cost
// little and are deep in documents.
func (s *Schema) deepen(c *compiler) {
	limit, b := min(c.budget.States(), s.States()*5/4), s.Bounds
	most := 2 * roomy * c.budget.States()
	size := c.measure(s.root, b, most)
	try := func(wider Bounds) {
		if s.States()+c.measure(s.root, wider, most)-size <= limit {
			b = wider
		}
	}
	for whole := b.Free + 2; whole <= bounds[len(bounds)-1].Free+2; whole++ {
		wider := b
		wider.Whole = whole
		try(wider)
	}
	outer := b
	for _, set := range dimensions {
		for _, level := range bounds {
			wider := b
			if set(&wider, level); wider.contains(b) {
				try(wider)
			}
		}
	}
	for _, b := range []Bounds{b, outer} {
		c.within(b, false)
		if d, err := c.schema(s.root); err == nil {
			s.DFA, s.Bounds = d, b
			return
		}
	}
}
