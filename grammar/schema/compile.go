package schema

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"unmask/grammar"
)

// compiler has what all automata of one schema share, whatever their bounds are.
type compiler struct {
	separators
	budget *grammar.Budget

	// scalars are the automata of numbers and texts by a key that names all that they depend on.
	// They outlive the bounds because several bounds are tried for one schema.
	scalars map[string]*grammar.DFA
}

// separators are what is written after an item and after a key.
type separators struct{ comma, colon string }

// separatorsFor returns what stands between elements and behind keys: with a space, as Python's
// json.dumps writes it, or without.
func separatorsFor(compact bool) separators {
	if compact {
		return separators{",", ":"}
	}
	return separators{", ", ": "}
}

// newCompiler returns a compiler of schemas.
func newCompiler(budget *grammar.Budget, compact bool) *compiler {
	return &compiler{
		separators: separatorsFor(compact),
		budget:     budget,
		scalars:    map[string]*grammar.DFA{},
	}
}

// compile returns the minimal automaton of a schema's values within bounds.
func (c *compiler) compile(e *expr, bounds Bounds) (*grammar.DFA, error) {
	w := newWalker(c, bounds, nil)
	return w.automaton(e)
}

// measure returns how many states a schema's automaton has within bounds before it is made
// deterministic, or a number above limit. Errors are left to the compilation.
func (c *compiler) measure(e *expr, bounds Bounds, limit int) int {
	counter := newCountingSink(limit)
	w := newWalker(c, bounds, counter)
	_, _ = w.add(w.sink.AddState(), w.sink.AddState(), e)
	return counter.states
}

// scalar returns the automaton of a number or a text, which build makes when it is first needed.
func (c *compiler) scalar(key string, build func() (*grammar.DFA, error)) (*grammar.DFA, error) {
	if d := c.scalars[key]; d != nil {
		return d, nil
	}
	d, err := build()
	if err == nil {
		c.scalars[key] = d
	}
	return d, err
}

// walker visits a schema and adds its values between two states of a sink. An automatonSink builds
// the states; a countingSink only counts them, so that bounds within which a schema would be too
// large are passed over before memory is spent on it.
type walker struct {
	*compiler
	bounds Bounds
	sink   sink

	// enclosing are the recursive definitions around the current schema, outermost first.
	enclosing []*expr

	// nesting is how many schemas are around the current one.
	nesting int

	// finished are the automata that were built within these bounds, and visited the places whose
	// states are part of some automaton. Walkers that build one automaton for the use of another
	// share both.
	finished map[place]*grammar.DFA
	visited  map[place]bool
}

// place is a schema inside certain recursive definitions: what it adds depends on both.
type place struct {
	schema  *expr
	context string
}

// newWalker returns a walker that has visited nothing.
func newWalker(c *compiler, bounds Bounds, sink sink) *walker {
	return &walker{
		compiler: c,
		bounds:   bounds,
		sink:     sink,
		finished: map[place]*grammar.DFA{},
		visited:  map[place]bool{},
	}
}

// maxNested bounds the schemas inside each other.
const maxNested = 100

// placeOf returns the place of a schema that is met now. Its context tells apart the recursive
// definitions around it, and how much deeper free values in it may be than elsewhere.
func (w *walker) placeOf(e *expr) place {
	context := strconv.Itoa(max(0, w.bounds.Whole-w.nesting-w.bounds.Free))
	for _, definition := range w.enclosing {
		context += fmt.Sprintf("%p", definition)
	}
	return place{e, context}
}

// automaton returns an automaton of a schema's own, whatever the walker's sink is.
func (w *walker) automaton(e *expr) (*grammar.DFA, error) {
	if e == anything {
		return w.freeValue()
	}
	p := w.placeOf(e)
	if d := w.finished[p]; d != nil {
		return d, nil
	}

	builder := grammar.NewBuilder(w.budget)
	inner := *w
	inner.sink = automatonSink{builder}

	source := builder.AddState()
	target := builder.AddState()
	if _, err := inner.addShapes(source, target, e); err != nil {
		return nil, err
	}
	d, err := builder.Build(source, target)
	if err != nil {
		return nil, err
	}
	w.finished[p] = d
	return d, nil
}

// add adds the values of a schema between two states, and reports whether there are any.
func (w *walker) add(source, target int32, e *expr) (bool, error) {
	if e == anything {
		d, err := w.freeValue()
		if err == nil {
			w.sink.Embed(source, target, d)
		}
		return true, err
	}
	return w.sink.addSchema(w, source, target, e)
}

// addShapes adds the values of each shape of a schema.
func (w *walker) addShapes(source, target int32, e *expr) (possible bool, err error) {
	if w.sink.Full() {
		return false, &grammar.TooLargeError{Limit: w.budget.States()}
	}
	if w.nesting >= maxNested {
		return false, e.unsupported(fmt.Sprintf("more than %d schemas inside each other", maxNested))
	}
	if err := w.budget.Spend(schemaCost); err != nil {
		return false, err
	}
	w.nesting++
	defer func() { w.nesting-- }()

	list, err := e.shapes()
	if err != nil {
		return false, err
	}
	for _, s := range list {
		ok, err := w.addShape(source, target, s)
		if err != nil {
			return false, err
		}
		possible = possible || ok
	}
	return possible, nil
}

// addShape adds the values of a shape between two states, and reports whether there are any.
func (w *walker) addShape(source, target int32, s *shape) (bool, error) {
	switch s.kind {
	case nullKind:
		w.sink.AddEmpty(w.sink.AddText(source, "null"), target)
		return true, nil
	case booleanKind:
		if s.only == nil || *s.only {
			w.sink.AddEmpty(w.sink.AddText(source, "true"), target)
		}
		if s.only == nil || !*s.only {
			w.sink.AddEmpty(w.sink.AddText(source, "false"), target)
		}
		return true, nil
	case numberKind:
		d, err := w.numberAutomaton(&s.numbers)
		return w.embed(source, target, d, err)
	case textKind:
		return w.sink.addTexts(w, source, target, &s.texts)
	}
	return w.addCollection(source, target, s)
}

// embed adds a copy of an automaton that was just looked up, unless that failed.
func (w *walker) embed(source, target int32, d *grammar.DFA, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	w.sink.Embed(source, target, d)
	return !d.Empty(), nil
}

// addCollection adds arrays or objects.
func (w *walker) addCollection(source, target int32, s *shape) (possible bool, err error) {
	outer := w.enclosing
	defer func() { w.enclosing = outer }()
	for _, definition := range s.definitions {
		if w.recursionDepth(definition) > w.bounds.Recursion {
			return false, nil
		}
		w.enclosing = append(slices.Clip(w.enclosing), definition)
	}

	// Whether a collection has values is known once it was walked. So it gets states of its own, to
	// which nothing leads until then: one that turns out to be empty is left unreachable.
	in := w.sink.AddState()
	out := w.sink.AddState()
	if s.kind == arrayKind {
		possible, err = w.addArray(in, out, &s.arrays)
	} else {
		possible, err = w.addObject(in, out, &s.objects)
	}
	if possible && err == nil {
		w.sink.AddEmpty(source, in)
		w.sink.AddEmpty(out, target)
	}
	return possible, err
}

// recursionDepth returns how often a recursive definition is around the current schema.
func (w *walker) recursionDepth(definition *expr) int {
	n := 0
	for _, e := range w.enclosing {
		if e == definition {
			n++
		}
	}
	return n
}

// addArray adds arrays. A state is known by the number of items before it and by whether one of
// them satisfies contains, so there are two rows of states where the schema has that keyword.
func (w *walker) addArray(source, target int32, s *arrays) (bool, error) {
	limit := s.maxItems
	if s.unique && (limit < 0 || limit > 1) {
		return w.addUniqueItems(source, target, s)
	}
	if len(s.contains) > 1 {
		return false, &UnsupportedError{Feature: "contains more than once"}
	}
	if s.minItems > w.budget.States() {
		return false, &grammar.TooLargeError{Limit: w.budget.States()}
	}

	// The first items have states of their own each: those with schemas of their own, those that must
	// be there, and those that are counted up to maxItems. Without maxItems, a loop follows.
	chain := max(s.minItems, len(s.prefix), 1)
	if limit >= 0 {
		limit = min(limit, max(chain, w.bounds.Items))
		chain = limit
	}

	// states[1] is where an item that satisfies contains was read.
	needed := len(s.contains)
	states := [2]int32{w.sink.AddText(source, "["), w.sink.AddState()}
	end := w.sink.AddState()
	w.sink.AddEmpty(w.sink.AddText(end, "]"), target)
	possible := s.minItems == 0 && needed == 0
	if possible {
		w.sink.AddEmpty(states[0], end)
	}

	reachable := [2]bool{true, false}
	for i := 0; i < chain || limit < 0 && i == chain; i++ {
		next := [2]int32{w.sink.AddState(), w.sink.AddState()}
		if i == chain {
			next = states // the loop
		}
		nextReachable, err := w.addItem(i, states, next, reachable, s)
		if err != nil {
			return false, err
		}
		if !nextReachable[0] && !nextReachable[1] {
			break
		}
		states = next
		reachable = nextReachable
		if i+1 >= s.minItems {
			w.sink.AddEmpty(states[needed], end)
			possible = possible || reachable[needed]
		}
	}
	return possible, nil
}

// addItem adds item i of an array between two pairs of states: without and with an item that
// satisfies contains. It returns which of the states after the item can be reached.
func (w *walker) addItem(i int, states, next [2]int32, reachable [2]bool, s *arrays) (
	nextReachable [2]bool, err error) {
	// An item that satisfies contains may also be read as one that does not: the automaton is not
	// deterministic yet, and a text is accepted if one of its ways is.
	item := s.itemSchema(i)
	for satisfied := 0; satisfied <= len(s.contains); satisfied++ {
		if !reachable[satisfied] {
			continue
		}
		in := states[satisfied]
		if i > 0 {
			in = w.sink.AddText(in, w.comma)
		}
		ok, err := w.add(in, next[satisfied], item)
		if err != nil {
			return nextReachable, err
		}
		nextReachable[satisfied] = nextReachable[satisfied] || ok
		if len(s.contains) == 1 && satisfied == 0 {
			nextReachable[1], err = w.add(in, next[1], intersect(item, s.contains[0]))
			if err != nil {
				return nextReachable, err
			}
		}
	}
	return nextReachable, nil
}

// maxUnique bounds the values of items that may not repeat; there is a state for each set of them.
const maxUnique = 8

// addUniqueItems adds arrays of different values from a short list of texts. An automaton must
// remember which values it has read, so that no other values can be kept from repeating.
func (w *walker) addUniqueItems(source, target int32, s *arrays) (bool, error) {
	refusal := &UnsupportedError{
		Pointer: s.uniquePointer,
		Feature: "uniqueItems of items that are no short list",
	}
	list, err := s.items.shapes()
	if err != nil {
		return false, err
	}
	var values []string
	for _, shape := range list {
		if shape.kind != textKind || shape.allowed == nil {
			return false, refusal
		}
		for _, v := range shape.allowed {
			if !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
	}
	if len(values) > maxUnique || len(s.prefix) > 0 || len(s.contains) > 0 {
		return false, refusal
	}

	states := addStates(w.sink, 1<<len(values)) // by the set of values that were read
	w.sink.AddEmpty(w.sink.AddText(source, "["), states[0])
	for set, state := range states {
		n := bits.OnesCount(uint(set))
		if n >= s.minItems && (s.maxItems < 0 || n <= s.maxItems) {
			w.sink.AddEmpty(w.sink.AddText(state, "]"), target)
		}
		if set > 0 {
			state = w.sink.AddText(state, w.comma)
		}
		for i, v := range values {
			if set>>i&1 == 0 {
				w.sink.AddEmpty(w.sink.AddText(state, quoteText(v)), states[set|1<<i])
			}
		}
	}
	return s.minItems <= len(values), nil
}
