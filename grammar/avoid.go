package grammar

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"unmask/param"
)

// Avoid returns the automaton of the texts w for which expressions, in the syntax of Regexp, match
// nowhere in textBefore + w + textAfter, except for matches that lie wholly in textBefore or in
// textAfter: these texts are there already, and no w could change them. A text is any bytes: what
// is no UTF-8 matches nothing. Expressions with anchors or \b, that match the empty text, or that
// leave no text at all are a *param.Error.
func Avoid(expressions []string, textBefore, textAfter string, budget *Budget) (*DFA, error) {
	refuse := func(why string) error {
		return &param.Error{
			Name:  "avoid",
			Found: fmt.Sprintf("%.80q: %s", strings.Join(expressions, "|"), why),
			Want:  `one of a character or more, without \b and anchors`,
		}
	}
	for _, e := range expressions {
		re, err := parseRegexp(e)
		if err != nil {
			return nil, refuse(err.Error())
		}
		if findOperator(re, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
			syntax.OpWordBoundary, syntax.OpNoWordBoundary) != nil {
			return nil, refuse("it is about words, lines or ends")
		}
	}
	d, err := Regexp("(?:"+strings.Join(expressions, ")|(?:")+")", budget)
	if err != nil {
		return nil, err
	}
	if d.accept[d.start] {
		return nil, refuse("it matches the empty text")
	}
	// Each state is followed through all of the texts around w.
	if err := budget.Spend(d.States() * (len(textBefore) + len(textAfter))); err != nil {
		return nil, err
	}

	withMatch, err := d.textsWithMatch(textBefore, textAfter, budget)
	if err != nil {
		return nil, err
	}
	every, err := anyBytes(budget)
	if err != nil {
		return nil, err
	}
	out, err := Subtract(every, withMatch, budget)
	if err == nil && out.Empty() {
		err = refuse("it leaves no text")
	}
	return out, err
}

// anyBytes returns the automaton of all texts, also of those that are no UTF-8.
func anyBytes(budget *Budget) (*DFA, error) {
	b := NewBuilder(budget)
	state := b.AddState()
	b.AddRange(state, state, 0, 255)
	return b.Build(state, state)
}

// textsWithMatch returns the automaton of the texts w such that a text of d lies in textBefore +
// w + textAfter, but neither in textBefore nor in textAfter.
//
// It has a copy of d, in the state that d is in, which is entered by the first byte of w that d
// reads. The copy begins before w where d read an end of textBefore. None of d's accepting states
// counts before that byte, because such a match would lie in textBefore.
func (d *DFA) textsWithMatch(textBefore, textAfter string, budget *Budget) (*DFA, error) {
	b := NewBuilder(budget)
	source := b.AddState()
	early := b.AddState() // bytes of w before the match
	late := b.AddState()  // bytes of w after the match
	target := b.AddState()
	b.AddRange(early, early, 0, 255)
	b.AddRange(late, late, 0, 255)
	b.AddEmpty(source, early)
	b.AddEmpty(late, target)

	base := int32(len(b.states))
	for range d.States() {
		b.AddState()
	}
	addEdges := func(state, s int32) { // those of d's state s, to a state of b
		for _, e := range d.Out(s) {
			b.AddRange(state, base+e.To, e.Lo, e.Hi)
		}
	}
	for s := range int32(d.States()) {
		if b.Full() {
			break
		}
		addEdges(base+s, s)
		if d.accept[s] {
			b.AddEmpty(base+s, late)
		}
		if d.acceptsWithin(s, textAfter) {
			b.AddEmpty(base+s, target)
		}
	}
	addEdges(early, d.start)
	for _, s := range d.statesAfter(textBefore) {
		addEdges(source, s)
		if d.acceptsWithin(s, textAfter) {
			b.AddEmpty(source, target)
		}
	}
	return b.Build(source, target)
}

// acceptsWithin reports whether d, in state s, accepts after a byte or more of a text.
func (d *DFA) acceptsWithin(s int32, text string) bool {
	for i := range len(text) {
		s = d.Next(s, text[i])
		if s < 0 {
			return false
		}
		if d.accept[s] {
			return true
		}
	}
	return false
}

// statesAfter returns the states that d is in at the end of a text, begun at any of its bytes.
func (d *DFA) statesAfter(text string) (list []int32) {
	for i := range len(text) {
		var next []int32
		for _, s := range append(list, d.start) {
			if s = d.Next(s, text[i]); s >= 0 {
				next = append(next, s)
			}
		}
		slices.Sort(next)
		list = slices.Compact(next)
	}
	return list
}
