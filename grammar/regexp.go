package grammar

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"

	"unmask/param"
)

// Regexp returns the automaton of the texts that a whole regular expression matches, in the syntax
// of Go's package regexp (RE2). Word boundaries and anchors of lines are refused.
func Regexp(expression string, budget *Budget) (*DFA, error) {
	re, err := parse(expression)
	if err != nil {
		return nil, refuse(expression, err.Error())
	}
	d, err := compile(re, false, budget)
	if err == nil && d.Empty() {
		err = refuse(expression, "matches nothing")
	}
	return d, err
}

// Search returns the automaton of the texts in which a regular expression of ECMA 262 matches
// somewhere, as JSON Schema's pattern has it.
func Search(expression string, budget *Budget) (*DFA, error) {
	rewritten, err := (&ecma{rest: expression}).rewrite()
	var re *syntax.Regexp
	if err == nil {
		re, err = parse(rewritten)
	}
	if err != nil {
		return nil, refuse(expression, err.Error())
	}
	return compile(re, true, budget)
}

func parse(expression string) (*syntax.Regexp, error) {
	re, err := syntax.Parse(expression, syntax.Perl)
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, fmt.Errorf("%s: %.60s", e.Code, e.Expr)
	}
	return re, err
}

// refuse returns the error of a regular expression.
func refuse(expression, what string) error {
	return &param.Error{Name: "regex", Found: fmt.Sprintf("%.80q: %s", expression, what),
		Want: `one without \b, references and look-arounds`}
}

// compile returns the automaton of the texts that re matches, as a whole or, in a search, anywhere.
func compile(re *syntax.Regexp, search bool, budget *Budget) (*DFA, error) {
	if part := find(re, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary,
		syntax.OpNoWordBoundary); part != nil {
		return nil, refuse(part.String(), "it is about words or lines")
	}
	re = sparse(re)
	if search {
		any := &syntax.Regexp{Op: syntax.OpStar, Sub: []*syntax.Regexp{{Op: syntax.OpAnyChar}}}
		re = &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{any, re, any}}
	}
	if size(re) > spare*budget.States() {
		return nil, tooLarge(budget.States())
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, err
	}
	b := NewBuilder(budget)
	from, to, base := b.AddState(), b.AddState(), b.AddState()
	for range prog.Inst[1:] {
		b.AddState()
	}
	b.AddEmpty(from, base+int32(prog.Start))
	var begins, ends []between
	for i := range prog.Inst {
		inst := &prog.Inst[i]
		edge := between{base + int32(i), base + int32(inst.Out)}
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			b.AddEmpty(edge.from, edge.to)
			b.AddEmpty(edge.from, base+int32(inst.Arg))
		case syntax.InstCapture, syntax.InstNop:
			b.AddEmpty(edge.from, edge.to)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg) == syntax.EmptyBeginText {
				begins = append(begins, edge)
			} else {
				ends = append(ends, edge)
			}
		case syntax.InstMatch:
			b.AddEmpty(edge.from, to)
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			list := characters(inst)
			for k := 0; k < len(list); k += 2 {
				b.AddRunes(edge.from, edge.to, list[k], list[k+1])
			}
		}
	}
	if !b.full && len(begins)+len(ends) > 0 {
		b.anchor(from, to, begins, ends)
	}
	return b.Build(from, to)
}

// find returns the first part of an expression with one of some operators, nil if none has.
func find(re *syntax.Regexp, ops ...syntax.Op) *syntax.Regexp {
	if slices.Contains(ops, re.Op) {
		return re
	}
	for _, sub := range re.Sub {
		if part := find(sub, ops...); part != nil {
			return part
		}
	}
	return nil
}

// size returns about how many instructions an expression has, or a number above 1<<30.
func size(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+size(sub), 1<<30)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// characters returns the first and the last character of each range that an instruction reads.
func characters(inst *syntax.Inst) []rune {
	if len(inst.Rune) != 1 {
		return inst.Rune
	}
	r := inst.Rune[0]
	list := []rune{r, r}
	if syntax.Flags(inst.Arg)&syntax.FoldCase != 0 {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			list = append(list, f, f)
		}
	}
	return list
}

type between struct{ from, to int32 }

// anchor turns anchors of the beginning and of the end of a text, which are edges that read
// nothing, into others. No edge leads to from, and none leads away from to, so what can be reached
// from the one with anchors of the beginning is reached at the beginning, and likewise at the end.
// In the empty text both hold.
func (b *Builder) anchor(from, to int32, begins, ends []between) {
	var empty, back []between
	for s := range b.states {
		for k := b.states[s].empty; k > 0; k = b.empty[k-1].next {
			empty = append(empty, between{int32(s), b.empty[k-1].to})
		}
	}
	for _, e := range slices.Concat(empty, ends) {
		back = append(back, between{e.to, e.from})
	}
	n := len(b.states)
	first := reached(n, from, slices.Concat(empty, begins))
	last := reached(n, to, back)
	both := reached(n, from, slices.Concat(empty, begins, ends))
	for _, e := range begins {
		if first[e.from] >= 0 {
			b.AddEmpty(from, e.to)
		}
	}
	for _, e := range ends {
		if last[e.to] >= 0 {
			b.AddEmpty(e.from, to)
		}
	}
	if both[to] >= 0 {
		b.AddEmpty(from, to)
	}
}

// reached returns how many of the edges lead to each of n states from one, -1 for none.
func reached(n int, from int32, edges []between) []int32 {
	next, start := make([][]int32, n), make([]bool, n)
	for _, e := range edges {
		next[e.from] = append(next[e.from], e.to)
	}
	start[from] = true
	return distances(start, func(s int32) []int32 { return next[s] })
}

// sparse returns an expression of the same texts in which what is repeated is not empty: what may
// be counts as what is not, up to as often, so that a state does not lead to all copies at once.
func sparse(re *syntax.Regexp) *syntax.Regexp {
	out := *re
	out.Sub = nil
	for _, sub := range re.Sub {
		out.Sub = append(out.Sub, sparse(sub))
	}
	if re.Op != syntax.OpRepeat || re.Max == 0 {
		return &out
	}
	if rest, empty := nonempty(out.Sub[0]); empty {
		out.Min = 0
		if out.Sub[0] = rest; rest.Op == syntax.OpPlus {
			out.Sub[0], out.Max = rest.Sub[0], -1
		}
	}
	return &out
}

// nonempty returns what re matches but for the empty text, if it is easy to see that it matches
// that.
func nonempty(re *syntax.Regexp) (rest *syntax.Regexp, empty bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return &syntax.Regexp{Op: syntax.OpNoMatch}, true
	case syntax.OpCapture:
		return nonempty(re.Sub[0])
	case syntax.OpQuest, syntax.OpStar:
		rest, _ = nonempty(re.Sub[0])
		if re.Op == syntax.OpStar {
			rest = &syntax.Regexp{Op: syntax.OpPlus, Sub: []*syntax.Regexp{rest}}
		}
		return rest, true
	case syntax.OpAlternate:
		rest = &syntax.Regexp{Op: syntax.OpAlternate}
		for _, sub := range re.Sub {
			part, may := nonempty(sub)
			rest.Sub, empty = append(rest.Sub, part), empty || may
		}
		return rest, empty
	}
	return re, false
}

// AddAnyRune adds a way that reads one character in UTF-8.
func (b *Builder) AddAnyRune(from, to int32) { b.AddRunes(from, to, 0, unicode.MaxRune) }

// AddRunes adds a way that reads one character of lo to hi, in UTF-8.
func (b *Builder) AddRunes(from, to int32, lo, hi rune) {
	const firstSurrogate, lastSurrogate = 0xd800, 0xdfff
	if lo < firstSurrogate && hi >= firstSurrogate {
		b.AddRunes(from, to, lo, firstSurrogate-1)
		lo = firstSurrogate
	}
	if lo >= firstSurrogate && lo <= lastSurrogate {
		if lo = lastSurrogate + 1; lo > hi {
			return
		}
	}
	for _, most := range []rune{0x7f, 0x7ff, 0xffff} { // characters of one length
		if lo <= most && most < hi {
			b.AddRunes(from, to, lo, most)
			lo = most + 1
		}
	}
	if lo > hi {
		return
	}
	if hi < utf8.RuneSelf {
		b.AddRange(from, to, byte(lo), byte(hi))
		return
	}
	for i := 1; i < utf8.RuneLen(lo); i++ { // bytes after the first cover all values or one
		mask := rune(1)<<(6*i) - 1
		if lo&^mask != hi&^mask {
			if lo&mask != 0 {
				b.AddRunes(from, to, lo, lo|mask)
				b.AddRunes(from, to, (lo|mask)+1, hi)
				return
			}
			if hi&mask != mask {
				b.AddRunes(from, to, lo, hi&^mask-1)
				b.AddRunes(from, to, hi&^mask, hi)
				return
			}
		}
	}
	var first, last [utf8.UTFMax]byte
	n := utf8.EncodeRune(first[:], lo)
	utf8.EncodeRune(last[:], hi)
	for i := range n - 1 {
		next := b.AddState()
		b.AddRange(from, next, first[i], last[i])
		from = next
	}
	b.AddRange(from, to, first[n-1], last[n-1])
}
