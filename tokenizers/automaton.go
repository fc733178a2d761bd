package tokenizers

import (
	"regexp/syntax"
	"sync"
	"unicode/utf8"
)

// automaton finds a regular expression at the start of a text, as Go's regexp does, in one look at
// each character: its states are made when they are first reached. It is for one goroutine.
type automaton struct {
	prog  *syntax.Prog
	first *state
	known map[string]*state // by their threads
	made  int               // transitions, and threads of states
	seen  []int             // the turn in which follow was last at a place
	turn  int
}

// state is what is left to match: places in the program, the preferred ones first. Those after a
// place at which the match is complete are left out.
type state struct {
	threads []uint32
	match   bool
	ascii   [utf8.RuneSelf]*state
	others  map[rune]*state
}

// mostMade bounds the memory of an automaton, 1 KB for each: with more it keeps no states, and
// begins anew with the next text.
const mostMade = 1 << 14

// automata returns a function that finds an expression at the start of a text: the length of the
// match, -1 for none. Go's regexp has the same, at a twentieth of the speed. It is for any number
// of goroutines.
func automata(expression string) (func(text string) int, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	idle := sync.Pool{New: func() any {
		return &automaton{prog: prog, made: mostMade, seen: make([]int, len(prog.Inst))}
	}}
	return func(text string) int {
		a := idle.Get().(*automaton)
		defer idle.Put(a)
		return a.find(text)
	}, nil
}

func (a *automaton) find(text string) int {
	if a.made >= mostMade {
		a.known, a.made = map[string]*state{}, 0
		s := &state{}
		a.turn++
		a.follow(s, uint32(a.prog.Start))
		a.first = a.same(s)
	}
	end, at := -1, a.first
	for i, r := range text {
		if at.match {
			end = i
		}
		if len(at.threads) == 0 {
			return end
		}
		var next *state
		if r < utf8.RuneSelf {
			next = at.ascii[r]
		} else {
			next = at.others[r]
		}
		if next == nil {
			next = a.step(at, r)
		}
		at = next
	}
	if at.match {
		end = len(text)
	}
	return end
}

// step makes the transition of a state by a rune.
func (a *automaton) step(from *state, r rune) *state {
	to := &state{}
	a.turn++
	for _, at := range from.threads {
		if inst := &a.prog.Inst[at]; inst.MatchRune(r) {
			a.follow(to, inst.Out)
		}
	}
	if a.made += 1 + len(to.threads); a.made >= mostMade {
		return to
	}
	to = a.same(to)
	if r < utf8.RuneSelf {
		from.ascii[r] = to
	} else {
		if from.others == nil {
			from.others = map[rune]*state{}
		}
		from.others[r] = to
	}
	return to
}

// follow adds the places that are reached without a character. Patterns have no ^, $ or \b.
func (a *automaton) follow(s *state, at uint32) {
	if s.match || a.seen[at] == a.turn {
		return
	}
	a.seen[at] = a.turn
	switch inst := &a.prog.Inst[at]; inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		a.follow(s, inst.Out)
		a.follow(s, inst.Arg)
	case syntax.InstCapture, syntax.InstNop:
		a.follow(s, inst.Out)
	case syntax.InstMatch:
		s.match = true
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		s.threads = append(s.threads, at)
	}
}

// same returns the state of these threads that is known already, or this one.
func (a *automaton) same(s *state) *state {
	key := make([]byte, 0, 4*len(s.threads)+1)
	for _, t := range s.threads {
		key = append(key, byte(t), byte(t>>8), byte(t>>16), byte(t>>24))
	}
	if s.match {
		key = append(key, 1)
	}
	if have := a.known[string(key)]; have != nil {
		return have
	}
	a.known[string(key)] = s
	return s
}
