package schema

import (
	"sync"

	"unmask/grammar"
)

// free is the depth of a value that the schema leaves free: of objects and arrays, and of arrays
// alone. There is a state for each way in which they can be inside each other.
type free struct {
	depth, arrays int
	separators
}

// freeValues are the automata of free values, the same for all schemas.
var freeValues = struct {
	sync.Mutex
	known map[free]*grammar.DFA
}{known: map[free]*grammar.DFA{}}

// any returns the automaton of all values, as deep as the bounds are.
func (c *compiler) any() (*grammar.DFA, error) {
	freeValues.Lock()
	defer freeValues.Unlock()
	depth := max(c.Free, c.Whole-c.nested)
	return free{depth, min(depth, c.Arrays), c.separators}.values()
}

// values returns the automaton. The caller holds the lock.
func (f free) values() (*grammar.DFA, error) {
	if d := freeValues.known[f]; d != nil {
		return d, nil
	}
	b := grammar.NewBuilder(nil)
	from, to := b.AddState(), b.AddState()
	scalars := newCompiler(nil, false)
	for _, k := range []kind{null, boolean, number, text} {
		if _, err := scalars.shape(b, from, to, every(k)); err != nil {
			return nil, err
		}
	}
	b.AddEmpty(b.AddText(from, "[]"), to)
	b.AddEmpty(b.AddText(from, "{}"), to)
	if f.depth > 0 && f.arrays > 0 {
		inner, err := free{f.depth - 1, f.arrays - 1, f.separators}.values()
		if err != nil {
			return nil, err
		}
		in, out := b.AddText(from, "["), b.AddState()
		b.Embed(in, out, inner)
		b.AddEmpty(b.AddText(out, f.comma), in)
		b.AddEmpty(b.AddText(out, "]"), to)
	}
	if f.depth > 0 {
		inner, err := free{f.depth - 1, min(f.arrays, f.depth-1), f.separators}.values()
		if err != nil {
			return nil, err
		}
		key, err := scalars.texts(&texts{maxLength: -1})
		if err != nil {
			return nil, err
		}
		in, out, colon := b.AddText(from, "{"), b.AddState(), b.AddState()
		b.Embed(in, colon, key)
		b.Embed(b.AddText(colon, f.colon), out, inner)
		b.AddEmpty(b.AddText(out, f.comma), in)
		b.AddEmpty(b.AddText(out, "}"), to)
	}
	d, err := b.Build(from, to)
	if err == nil {
		freeValues.known[f] = d
	}
	return d, err
}
