// Package schema turns JSON Schemas, of the drafts 4 to 2020-12, into automata. A schema becomes a
// union of shapes, sets of values of one type, which can be intersected and subtracted (allOf,
// oneOf, not); what remains becomes one automaton of the texts that the engine may write.
//
// Every value has one text: keys in the order of the schema and further keys after them, one space
// after commas and colons or none, characters as they are but for those that JSON must escape, and
// numbers without exponents where that is possible. One text instead of many keeps automata small,
// and a model's choices to those that mean something.
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
	// Compact leaves out the spaces after commas and colons.
	Compact bool

	// MaxStates bounds the automaton's states; 0 means DefaultLimit.
	MaxStates int

	// Recursion is how often a definition may contain itself; 0 means as often as fits.
	Recursion int

	// Budget bounds the work; nil means a budget of the schema's own.
	Budget *grammar.Budget
}

// DefaultLimit is the default bound on states over bytes.
const DefaultLimit = 1 << 15

// Schema is a JSON Schema and its automaton, which reads the bytes of the values that it allows.
type Schema struct {
	*grammar.DFA

	// Bounds limit the values that can be written.
	Bounds Bounds

	root    *expr
	compact bool
}

// Compile reads a schema. It returns an [*UnsupportedError] for what it cannot express, and another
// error if no value is valid or the automaton is too large.
func Compile(data []byte, o Options) (*Schema, error) {
	root, err := parseJSON(data)
	if err != nil {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	budget := cmp.Or(o.Budget, grammar.NewBudget(context.Background(), 0))
	budget = budget.WithStates(cmp.Or(o.MaxStates, DefaultLimit))
	d, err := newDocument(root, budget)
	if err != nil {
		return nil, err
	}
	s := &Schema{root: d.schemaAt("", root), compact: o.Compact}
	if _, err := s.root.shapes(); err != nil {
		return nil, err
	}
	if err := s.build(budget, o.Recursion); err != nil {
		return nil, err
	}
	return s, nil
}

// build makes the automaton within the widest bounds that fit.
func (s *Schema) build(budget *grammar.Budget, recursion int) error {
	c := newCompiler(budget, s.compact)
	widest := levels[len(levels)-1].withRecursion(recursion)
	if err := s.fitBounds(c, recursion); err != nil {
		return err
	}
	if s.DFA != nil && s.Bounds != widest {
		s.widenBounds(c)
	}
	if s.root.doc != nil {
		s.root.doc.budget = nil // what Write asks of shapes later is not part of the compilation
	}

	if s.Empty() && s.Bounds != widest {
		return &grammar.TooLargeError{Limit: budget.States()}
	}
	if s.Empty() {
		return fmt.Errorf("the schema allows no value")
	}
	return nil
}

// fitBounds chooses bounds for a number of states before the automaton is made deterministic and
// minimal. How many are left then shows once it is made, so bounds are chosen for a larger or
// smaller number where the first were wrong.
func (s *Schema) fitBounds(c *compiler, recursion int) error {
	limit := c.budget.States()
	narrowest := levels[0].withRecursion(recursion)
	widest := levels[len(levels)-1].withRecursion(recursion)

	sizeLimit := shrinkGuess * limit
	widened := false
	retries := 2 // with narrower bounds, after wider ones were too large
	for {
		bounds, size := c.chooseBounds(s.root, recursion, sizeLimit)
		if bounds == s.Bounds {
			if s.DFA != nil {
				return nil
			}
			sizeLimit = sizeLimit * 2 / 3 // these bounds were too large
			continue
		}

		d, err := c.compile(s.root, bounds)
		if err != nil && s.DFA != nil {
			sizeLimit = size / 2
			if retries == 0 {
				return nil
			}
			retries--
			continue
		}
		if _, large := errors.AsType[*grammar.TooLargeError](err); large && bounds != narrowest {
			s.Bounds = bounds
			sizeLimit = min(sizeLimit, size) * 2 / 3
			continue
		}
		if err != nil {
			return err
		}

		s.DFA = d
		s.Bounds = bounds
		if widened || bounds == widest || 2*d.States() > limit {
			return nil
		}
		// Less than half of the bound is used, so this schema shrinks more than was guessed. The next
		// guess goes by how much it did, less a quarter to be safe.
		sizeLimit = size * limit / max(d.States(), 1) * 3 / 4
		widened = true
	}
}

// widenBounds widens bounds once more, each as far as a quarter more states seem to allow. First
// come free values that few schemas are around: those of further keys of the outermost object cost
// little and are deep in documents.
func (s *Schema) widenBounds(c *compiler) {
	limit := min(c.budget.States(), s.States()*5/4)
	sizeLimit := 2 * shrinkGuess * c.budget.States()
	size := c.measure(s.root, s.Bounds, sizeLimit)
	bounds := s.Bounds
	widenTo := func(wider Bounds) {
		if s.States()+c.measure(s.root, wider, sizeLimit)-size <= limit {
			bounds = wider
		}
	}

	deepest := levels[len(levels)-1].Free
	for whole := bounds.Free + 2; whole <= deepest+2; whole++ {
		wider := bounds
		wider.Whole = whole
		widenTo(wider)
	}
	onlyOuter := bounds
	for _, setDimension := range dimensions {
		for _, level := range levels {
			wider := bounds
			setDimension(&wider, level)
			if wider.contains(bounds) {
				widenTo(wider)
			}
		}
	}

	// The sizes are estimates: where all that was widened is too large, the outer values alone may
	// fit.
	for _, b := range []Bounds{bounds, onlyOuter} {
		if d, err := c.compile(s.root, b); err == nil {
			s.DFA = d
			s.Bounds = b
			return
		}
	}
}
