package schema

import "unmask/grammar"

// graph is an automaton that grows: what a [grammar.Builder] offers. Edges and copies of automata
// lead from a source to a target state.
type graph interface {
	AddState() int32
	AddText(source int32, text string) (end int32)
	AddEmpty(source, target int32)
	Embed(source, target int32, d *grammar.DFA)
	Full() bool
}

// addStates returns n new states.
func addStates(g graph, n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = g.AddState()
	}
	return list
}

// sink is the graph that a walker fills. It also decides where a shortcut replaces the walk.
type sink interface {
	graph

	// addSchema adds the values of a schema between two states, and reports whether there are any.
	addSchema(w *walker, source, target int32, e *expr) (bool, error)

	// addTexts adds the JSON strings of texts between two states, and reports whether there are any.
	addTexts(w *walker, source, target int32, t *texts) (bool, error)
}

// automatonSink builds the states.
type automatonSink struct{ *grammar.Builder }

// addSchema makes a schema's states part of the graph where it is met for the first time. Further
// places like that one get a copy of its minimal automaton, which is made once: without it, a
// definition that many keys use would be walked and made deterministic anew for each.
func (s automatonSink) addSchema(w *walker, source, target int32, e *expr) (bool, error) {
	p := w.placeOf(e)
	if !w.visited[p] {
		w.visited[p] = true
		return w.addShapes(source, target, e)
	}
	d, err := w.automaton(e)
	return w.embed(source, target, d, err)
}

func (s automatonSink) addTexts(w *walker, source, target int32, t *texts) (bool, error) {
	d, err := w.textAutomaton(t)
	return w.embed(source, target, d, err)
}

// countingSink counts states and keeps none: all states that it returns are 0.
type countingSink struct {
	states int

	// limit is the number of states above which the sink is full.
	limit int
	full  bool

	// counted has what each place added when it was walked first.
	counted map[place]placeCount
}

// placeCount is what one place adds to the count.
type placeCount struct {
	states   int
	possible bool // the schema has values
}

// newCountingSink returns a sink that counts up to limit and builds nothing.
func newCountingSink(limit int) *countingSink {
	return &countingSink{limit: limit, counted: map[place]placeCount{}}
}

// count adds n states. The sum stays below 1<<30, so that it cannot overflow.
func (s *countingSink) count(n int) {
	s.states = min(s.states+n, 1<<30)
	s.full = s.states > s.limit
}

func (s *countingSink) AddState() int32 {
	s.count(1)
	return 0
}

// AddText implements sink. A text has a state for each byte.
func (s *countingSink) AddText(_ int32, text string) int32 {
	for i := 0; i < len(text) && !s.full; i++ {
		s.count(1)
	}
	return 0
}

func (s *countingSink) AddEmpty(_, _ int32) {}

func (s *countingSink) Embed(_, _ int32, d *grammar.DFA) { s.count(d.States()) }

func (s *countingSink) Full() bool { return s.full }

// addSchema walks each place once, so that counting takes time for the schema's size and not for
// that of its automaton.
func (s *countingSink) addSchema(w *walker, source, target int32, e *expr) (bool, error) {
	p := w.placeOf(e)
	if earlier, ok := s.counted[p]; ok {
		s.count(earlier.states)
		return earlier.possible, nil
	}
	statesBefore := s.states
	possible, err := w.addShapes(source, target, e)
	s.counted[p] = placeCount{s.states - statesBefore, possible}
	return possible, err
}

// addTexts counts an estimate for texts whose automaton grows with the bounds: that automaton would
// be made for each of the bounds that are tried, and is the largest part of many schemas.
func (s *countingSink) addTexts(w *walker, source, target int32, t *texts) (bool, error) {
	if t.growsWithBounds() {
		s.count(w.estimateTextStates(t))
		return true, nil
	}
	d, err := w.textAutomaton(t)
	return w.embed(source, target, d, err)
}
