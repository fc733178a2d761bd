package schema

import (
	"sync"

	"unmask/grammar"
)

// freeDepth is how deep a value nests that the schema leaves free: objects and arrays, and arrays
// alone. There is a state for each way in which they can be inside each other, because an automaton
// has no other memory of which bracket is to be closed.
type freeDepth struct {
	depth, arrays int
	separators
}

// freeValues are the automata of free values, the same for all schemas.
var freeValues = struct {
	sync.Mutex
	automata map[freeDepth]*grammar.DFA
}{automata: map[freeDepth]*grammar.DFA{}}

// freeValue returns the automaton of all values, as deep as the bounds are.
func (w *walker) freeValue() (*grammar.DFA, error) {
	freeValues.Lock()
	defer freeValues.Unlock()
	depth := max(w.bounds.Free, w.bounds.Whole-w.nesting)
	return freeDepth{depth, min(depth, w.bounds.Arrays), w.separators}.automaton()
}

// automaton returns the automaton of free values. The caller holds the lock.
func (f freeDepth) automaton() (*grammar.DFA, error) {
	if d := freeValues.automata[f]; d != nil {
		return d, nil
	}
	b := grammar.NewBuilder(nil)
	source := b.AddState()
	target := b.AddState()
	w := newWalker(newCompiler(nil, false), Bounds{}, automatonSink{b})
	for _, k := range []kind{nullKind, booleanKind, numberKind, textKind} {
		if _, err := w.addShape(source, target, allOfKind(k)); err != nil {
			return nil, err
		}
	}
	b.AddEmpty(b.AddText(source, "[]"), target)
	b.AddEmpty(b.AddText(source, "{}"), target)

	if f.depth > 0 && f.arrays > 0 {
		inner, err := freeDepth{f.depth - 1, f.arrays - 1, f.separators}.automaton()
		if err != nil {
			return nil, err
		}
		in := b.AddText(source, "[")
		out := b.AddState()
		b.Embed(in, out, inner)
		b.AddEmpty(b.AddText(out, f.comma), in)
		b.AddEmpty(b.AddText(out, "]"), target)
	}
	if f.depth > 0 {
		inner, err := freeDepth{f.depth - 1, min(f.arrays, f.depth-1), f.separators}.automaton()
		if err != nil {
			return nil, err
		}
		key, err := w.textAutomaton(&texts{maxLength: -1})
		if err != nil {
			return nil, err
		}
		in := b.AddText(source, "{")
		out := b.AddState()
		colon := b.AddState()
		b.Embed(in, colon, key)
		b.Embed(b.AddText(colon, f.colon), out, inner)
		b.AddEmpty(b.AddText(out, f.comma), in)
		b.AddEmpty(b.AddText(out, "}"), target)
	}
	d, err := b.Build(source, target)
	if err == nil {
		freeValues.automata[f] = d
	}
	return d, err
}
