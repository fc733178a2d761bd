package schema

import (
	"fmt"
	"slices"
	"strconv"

	"unmask/grammar"
)

// compiler makes automata of schemas within bounds, or measures them.
type compiler struct {
	Bounds
	separators
	budget   *grammar.Budget
	strings  map[string]*grammar.DFA // of numbers and texts, whatever the bounds
	memo     map[use]*grammar.DFA
	used     map[use]bool
	measured map[use]measured // nil: automata are made
	depth    []*expr          // recursive definitions around the current one
	nested   int
}

// separators are what is written after an item and after a key.
type separators struct{ comma, colon string }

func written(compact bool) separators {
	if compact {
		return separators{",", ":"}
	}
	return separators{", ", ": "}
}

// use is a schema inside of recursive definitions.
type use struct {
	e   *expr
	key string
}

// measured is what a schema adds to an automaton.
type measured struct {
	states   int
	possible bool
}

func newCompiler(budget *grammar.Budget, compact bool) *compiler {
	return &compiler{budget: budget, separators: written(compact),
		strings: map[string]*grammar.DFA{}}
}

// within sets the bounds. Without measuring, automata are made.
func (c *compiler) within(b Bounds, measuring bool) {
	c.Bounds, c.depth, c.nested = b, nil, 0
	c.memo, c.used, c.measured = map[use]*grammar.DFA{}, map[use]bool{}, nil
	if measuring {
		c.measured = map[use]measured{}
	}
}

// measure returns how many states a schema's automaton has within bounds before it is made
// deterministic, or a number above most. Errors are left to the compilation.
func (c *compiler) measure(e *expr, bounds Bounds, most int) int {
	c.within(bounds, true)
	b := grammar.NewCounter(most)
	_, _ = c.add(b, b.AddState(), b.AddState(), e)
	return b.Size()
}

// maxNested bounds the schemas inside each other.
const maxNested = 100

// schema returns the automaton of a schema's values.
func (c *compiler) schema(e *expr) (*grammar.DFA, error) {
	if e == anything {
		return c.any()
	}
	use := use{e, c.key()}
	if d := c.memo[use]; d != nil {
		return d, nil
	}
	measured := c.measured
	c.measured = nil
	b := grammar.NewBuilder(c.budget)
	from, to := b.AddState(), b.AddState()
	_, err := c.inline(b, from, to, e)
	if c.measured = measured; err != nil {
		return nil, err
	}
	d, err := b.Build(from, to)
	if err != nil {
		return nil, err
	}
	c.memo[use] = d
	return d, nil
}

// key tells apart the automata that one schema has inside of recursive definitions, and where free
// values in it are deeper than elsewhere.
func (c *compiler) key() string {
	key := strconv.Itoa(max(0, c.Whole-c.nested-c.Free))
	for _, r := range c.depth {
		key += fmt.Sprintf("%p", r)
	}
	return key
}

// add adds the values of a schema between two states, and reports whether there are any. Where a
// schema is used for the first time its states become part of b; for further uses it has an
// automaton of its own that is copied.
func (c *compiler) add(b *grammar.Builder, from, to int32, e *expr) (bool, error) {
	if e == anything {
		d, err := c.any()
		if err == nil {
			b.Embed(from, to, d)
		}
		return true, err
	}
	use := use{e, c.key()}
	if c.measured != nil {
		m, ok := c.measured[use]
		if ok {
			b.Count(m.states)
			return m.possible, nil
		}
		before := b.Size()
		possible, err := c.inline(b, from, to, e)
		c.measured[use] = measured{b.Size() - before, possible}
		return possible, err
	}
	if !c.used[use] {
		c.used[use] = true
		return c.inline(b, from, to, e)
	}
	d, err := c.schema(e)
	if err != nil {
		return false, err
	}
	b.Embed(from, to, d)
	return !d.Empty(), nil
}

func (c *compiler) inline(b *grammar.Builder, from, to int32, e *expr) (possible bool, err error) {
	if b.Full() {
		return false, &grammar.TooLargeError{Limit: c.budget.States()}
	}
	if c.nested >= maxNested {
		return false, e.refuse(fmt.Sprintf("more than %d schemas inside each other", maxNested))
	}
	if err := c.budget.Spend(partWork); err != nil {
		return false, err
	}
	c.nested++
	defer func() { c.nested-- }()
	list, err := e.union()
	if err != nil {
		return false, err
	}
	for _, s := range list {
		ok, err := c.shape(b, from, to, s)
		if err != nil {
			return false, err
		}
		possible = possible || ok
	}
	return possible, nil
}

// shape adds the values of a shape between two states, and reports whether there are any.
func (c *compiler) shape(b *grammar.Builder, from, to int32, s *shape) (bool, error) {
	switch s.kind {
	case null:
		b.AddEmpty(b.AddText(from, "null"), to)
	case boolean:
		if s.only == nil || *s.only {
			b.AddEmpty(b.AddText(from, "true"), to)
		}
		if s.only == nil || !*s.only {
			b.AddEmpty(b.AddText(from, "false"), to)
		}
	case number, text:
		return c.scalar(b, from, to, s)
	default:
		before := c.depth
		defer func() { c.depth = before }()
		for _, e := range s.via {
			if c.inside(e) > c.Recursion {
				return false, nil
			}
			c.depth = append(slices.Clip(c.depth), e)
		}
		// What turns out to have no values is left behind, with no way from or to it.
		in, out := b.AddState(), b.AddState()
		ok, err := false, error(nil)
		if s.kind == array {
			ok, err = c.array(b, in, out, &s.arrays)
		} else {
			ok, err = c.dict(b, in, out, &s.dicts)
		}
		if ok && err == nil {
			b.AddEmpty(from, in)
			b.AddEmpty(out, to)
		}
		return ok, err
	}
	return true, nil
}

func (c *compiler) scalar(b *grammar.Builder, from, to int32, s *shape) (bool, error) {
	if s.kind == text && c.measured != nil && c.bounded(&s.texts) {
		b.Count(c.estimate(&s.texts))
		return true, nil
	}
	d, err := c.texts(&s.texts)
	if s.kind == number {
		d, err = c.number(&s.numbers)
	}
	if err != nil {
		return false, err
	}
	b.Embed(from, to, d)
	return !d.Empty(), nil
}

// cached returns the automaton of a number or a text, which is made when it is first needed.
func (c *compiler) cached(key string, make func() (*grammar.DFA, error)) (*grammar.DFA, error) {
	if d := c.strings[key]; d != nil {
		return d, nil
	}
	d, err := make()
	if err == nil {
		c.strings[key] = d
	}
	return d, err
}

// inside returns how often a recursive definition is around the current schema.
func (c *compiler) inside(e *expr) (n int) {
	for _, f := range c.depth {
		if e == f {
			n++
		}
	}
	return n
}

// array adds arrays. A state is known by the number of items and whether some item is as s.some
// wants it.
func (c *compiler) array(b *grammar.Builder, from, to int32, s *arrays) (bool, error) {
	most := s.maxItems
	if s.distinct && (most < 0 || most > 1) {
		return c.distinct(b, from, to, s)
	}
	if len(s.some) > 1 {
		return false, &UnsupportedError{Feature: "contains more than once"}
	}
	chain := max(s.minItems, len(s.prefix), 1)
	if most >= 0 {
		most = min(most, max(chain, c.Items))
		chain = most
	}
	if s.minItems > c.budget.States() {
		return false, &grammar.TooLargeError{Limit: c.budget.States()}
	}
	at, end := [2]int32{b.AddText(from, "["), b.AddState()}, b.AddState()
	b.AddEmpty(b.AddText(end, "]"), to)
	last := len(s.some) // 1: an item must be as s.some asks
	valid := s.minItems == 0 && last == 0
	if valid {
		b.AddEmpty(at[0], end)
	}
	some := [2]bool{true, false} // whether a state can be reached
	for i := 0; i < chain || most < 0 && i == chain; i++ {
		next, can := [2]int32{b.AddState(), b.AddState()}, [2]bool{}
		if i == chain {
			next = at // a loop
		}
		e := s.at(i)
		for seen := 0; seen <= last; seen++ {
			if !some[seen] {
				continue
			}
			in := at[seen]
			if i > 0 {
				in = b.AddText(in, c.comma)
			}
			ok, err := c.add(b, in, next[seen], e)
			can[seen] = can[seen] || ok
			if last == 1 && seen == 0 && err == nil {
				can[1], err = c.add(b, in, next[1], both(e, s.some[0]))
			}
			if err != nil {
				return false, err
			}
		}
		if !can[0] && !can[1] {
			break
		}
		at, some = next, can
		if i+1 >= s.minItems {
			b.AddEmpty(at[last], end)
			valid = valid || can[last]
		}
	}
	return valid, nil
}

// maxDistinct bounds the values of items that may not repeat; there is a state for each set of
// them.
const maxDistinct = 8

// distinct adds arrays of different values from a short list.
func (c *compiler) distinct(b *grammar.Builder, from, to int32, s *arrays) (bool, error) {
	refused := &UnsupportedError{Pointer: s.distinctReadsFrom, Feature: "uniqueItems of items that are no short list"}
	list, err := s.items.union()
	if err != nil {
		return false, err
	}
	var values []string
	for _, t := range list {
		if t.kind != text || t.in == nil {
			return false, refused
		}
		for _, v := range t.in {
			if !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
	}
	if len(values) > maxDistinct || len(s.prefix) > 0 || len(s.some) > 0 {
		return false, refused
	}
	states := make([]int32, 1<<len(values))
	for set := range states {
		states[set] = b.AddState()
	}
	b.AddEmpty(b.AddText(from, "["), states[0])
	for set, state := range states {
		n := 0
		for i := range values {
			n += set >> i & 1
		}
		if n >= s.minItems && (s.maxItems < 0 || n <= s.maxItems) {
			b.AddEmpty(b.AddText(state, "]"), to)
		}
		if set > 0 {
			state = b.AddText(state, c.comma)
		}
		for i, v := range values {
			if set>>i&1 == 0 {
				b.AddEmpty(b.AddText(state, quote(v)), states[set|1<<i])
			}
		}
	}
	return s.minItems <= len(values), nil
}
