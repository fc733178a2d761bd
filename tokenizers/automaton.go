package tokenizers

import (
	"regexp/syntax"
	"sync"
	"unicode/utf8"
)

// automaton finds a regular expression at the start of a text, as Go's regexp does, in one look at
// each character: its states are made when they are first reached. It is for one goroutine.
type automaton struct {
	prog   *syntax.Prog
	start  *matchState
	states map[string]*matchState // by their threads

	// size counts transitions, and threads of states.
	size int

	// visited has for each place of the program the visit in which addThreads was last there.
	visited []int
	visit   int
}

// matchState is what is left to match: places in the program, the preferred ones first. Those after
// a place at which the match is complete are left out.
type matchState struct {
	threads []uint32
	match   bool

	// The states after each character, nil where they were not made yet.
	ascii  [utf8.RuneSelf]*matchState
	others map[rune]*matchState
}

// maxSize bounds the memory of an automaton, 1 KB for each: with more it keeps no states, and
// begins anew with the next text.
const maxSize = 1 << 14

// newMatcher returns a function that finds an expression at the start of a text: the length of the
// match, -1 for none. Go's regexp has the same, at a twentieth of the speed. It is for any number
// of goroutines.
func newMatcher(expression string) (func(text string) int, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	idle := sync.Pool{New: func() any {
		return &automaton{prog: prog, size: maxSize, visited: make([]int, len(prog.Inst))}
	}}
	return func(text string) int {
		a := idle.Get().(*automaton)
		defer idle.Put(a)
		return a.matchLength(text)
	}, nil
}

// matchLength returns the length of the match at the start of text, -1 for none.
func (a *automaton) matchLength(text string) int {
	if a.size >= maxSize {
		a.reset()
	}
	length := -1
	state := a.start
	for i, r := range text {
		if state.match {
			length = i
		}
		if len(state.threads) == 0 { // nothing that follows can make the match longer
			return length
		}
		var next *matchState
		if r < utf8.RuneSelf {
			next = state.ascii[r]
		} else {
			next = state.others[r]
		}
		if next == nil {
			next = a.addTransition(state, r)
		}
		state = next
	}
	if state.match {
		length = len(text)
	}
	return length
}

// reset forgets all states but the first.
func (a *automaton) reset() {
	a.states = map[string]*matchState{}
	a.size = 0
	s := &matchState{}
	a.visit++
	a.addThreads(s, uint32(a.prog.Start))
	a.start = a.keepState(s)
}

// addTransition makes the transition of a state by a rune.
func (a *automaton) addTransition(state *matchState, r rune) *matchState {
	next := &matchState{}
	a.visit++
	for _, pc := range state.threads {
		if inst := &a.prog.Inst[pc]; inst.MatchRune(r) {
			a.addThreads(next, inst.Out)
		}
	}
	a.size += 1 + len(next.threads)
	if a.size >= maxSize { // too many are kept already: this one serves the text at hand only
		return next
	}
	next = a.keepState(next)
	if r < utf8.RuneSelf {
		state.ascii[r] = next
		return next
	}
	if state.others == nil {
		state.others = map[rune]*matchState{}
	}
	state.others[r] = next
	return next
}

// addThreads adds the places that are reached from one without a character, in the order of
// preference. Patterns have no ^, $ or \b.
func (a *automaton) addThreads(s *matchState, pc uint32) {
	if s.match || a.visited[pc] == a.visit {
		return
	}
	a.visited[pc] = a.visit // a place reached twice is preferred where it was reached first
	switch inst := &a.prog.Inst[pc]; inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		a.addThreads(s, inst.Out)
		a.addThreads(s, inst.Arg)
	case syntax.InstCapture, syntax.InstNop:
		a.addThreads(s, inst.Out)
	case syntax.InstMatch:
		s.match = true
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		s.threads = append(s.threads, pc)
	}
}

// keepState returns the state with the same threads that is known already, or keeps this one.
func (a *automaton) keepState(s *matchState) *matchState {
	key := make([]byte, 0, 4*len(s.threads)+1)
	for _, t := range s.threads {
		key = append(key, byte(t), byte(t>>8), byte(t>>16), byte(t>>24))
	}
	if s.match {
		key = append(key, 1)
	}
	if kept := a.states[string(key)]; kept != nil {
		return kept
	}
	a.states[string(key)] = s
	return s
}
