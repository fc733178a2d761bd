package grammar

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"unmask/param"
)

// Avoid returns the automaton of the texts w for which expressions, in the syntax of Regexp, match
// nowhere in before + w + after, except for matches that lie wholly in before or in after: these
// are given, and no text could change them.
func Avoid(expressions []string, before, after string, budget *Budget) (*DFA, error) {
	refused := func(what string) error {
		return &param.Error{Name: "avoid", Found: fmt.Sprintf("%.80q: %s",
			strings.Join(expressions, "|"), what), Want: `one of a character or more, without \b and anchors`}
	}
	for _, e := range expressions {
		switch re, err := parse(e); {
		case err != nil:
			return nil, refused(err.Error())
		case find(re, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
			syntax.OpWordBoundary, syntax.OpNoWordBoundary) != nil:
			return nil, refused("it is about words, lines or ends")
		}
	}
	d, err := Regexp("(?:"+strings.Join(expressions, ")|(?:")+")", budget)
	if err != nil {
		return nil, err
	}
	if d.accept[d.start] {
		return nil, refused("it matches the empty text")
	}
	if err := budget.Spend(d.States() * (len(before) + len(after))); err != nil {
		return nil, err
	}
	hit, err := d.hit(before, after, budget)
	if err != nil {
		return nil, err
	}
	every, err := Regexp("(?s).*", budget)
	if err != nil {
		return nil, err
	}
	out, err := Subtract(every, hit, budget)
	if err == nil && out.Empty() {
		err = refused("it leaves no text")
	}
	return out, err
}

// hit returns the automaton of the texts w such that a text of d lies in before + w + after, but
// neither in before nor in after. A copy of d, entered by the first byte of w that it reads, is in
// state s where d is; it has none of d's accepting states before that byte.
func (d *DFA) hit(before, after string, budget *Budget) (*DFA, error) {
	b := NewBuilder(budget)
	from, early, rest, to := b.AddState(), b.AddState(), b.AddState(), b.AddState()
	b.AddRange(early, early, 0, 255)
	b.AddRange(rest, rest, 0, 255)
	b.AddEmpty(from, early)
	b.AddEmpty(rest, to)
	base := int32(b.Size())
	for range d.States() {
		b.AddState()
	}
	enter := func(from, s int32) {
		for _, e := range d.Out(s) {
			b.AddRange(from, base+e.To, e.Lo, e.Hi)
		}
	}
	for s := range int32(d.States()) {
		if b.Full() {
			break
		}
		enter(base+s, s)
		if d.accept[s] {
			b.AddEmpty(base+s, rest)
		}
		if d.endsIn(s, after) {
			b.AddEmpty(base+s, to)
		}
	}
	enter(early, d.start)
	for _, s := range d.begun(before) {
		enter(from, s)
		if d.endsIn(s, after) {
			b.AddEmpty(from, to)
		}
	}
	return b.Build(from, to)
}

// endsIn reports whether d, in state s, accepts after a byte or more of a text.
func (d *DFA) endsIn(s int32, text string) bool {
	for i := range len(text) {
		if s = d.Next(s, text[i]); s < 0 {
			return false
		}
		if d.accept[s] {
			return true
		}
	}
	return false
}

// begun returns the states that d is in at the end of a text, begun at any of its bytes.
func (d *DFA) begun(text string) (list []int32) {
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
