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
	re, err := parseRegexp(expression)
	if err != nil {
		return nil, refuseRegexp(expression, err.Error())
	}
	d, err := compileRegexp(re, false, budget)
	if err == nil && d.Empty() {
		err = refuseRegexp(expression, "matches nothing")
	}
	return d, err
}

// Search returns the automaton of the texts in which a regular expression of ECMA 262 matches
// somewhere, as JSON Schema's pattern has it. An error quotes the expression: one that ECMA 262
// does not have, or that no automaton can read, such as a back reference.
func Search(expression string, budget *Budget) (*DFA, error) {
	rewritten, err := (&ecmaParser{rest: expression}).rewrite()
	var re *syntax.Regexp
	if err == nil {
		re, err = parseRegexp(rewritten)
	}
	if err != nil {
		return nil, refuseRegexp(expression, err.Error())
	}
	return compileRegexp(re, true, budget)
}

// parseRegexp parses an expression of Perl's syntax. An error quotes a part of it, because it may
// be long.
func parseRegexp(expression string) (*syntax.Regexp, error) {
	re, err := syntax.Parse(expression, syntax.Perl)
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, fmt.Errorf("%s: %.60s", e.Code, e.Expr)
	}
	return re, err
}

// refuseRegexp returns the error of a regular expression.
func refuseRegexp(expression, why string) error {
	return &param.Error{
		Name:  "regex",
		Found: fmt.Sprintf("%.80q: %s", expression, why),
		Want:  `one without \b, references and look-arounds`,
	}
}

// compileRegexp returns the automaton of the texts that re matches, as a whole or, in a search,
// anywhere.
func compileRegexp(re *syntax.Regexp, search bool, budget *Budget) (*DFA, error) {
	part := findOperator(re, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary,
		syntax.OpNoWordBoundary)
	if part != nil {
		return nil, refuseRegexp(part.String(), "it is about words or lines")
	}
	re = withoutEmptyRepeats(re)
	if search {
		anyText := &syntax.Regexp{Op: syntax.OpStar, Sub: []*syntax.Regexp{{Op: syntax.OpAnyChar}}}
		re = &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{anyText, re, anyText}}
	}
	if countInstructions(re) > spareStates*budget.States() {
		return nil, &TooLargeError{budget.States()}
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, err
	}
	return buildProgram(prog, budget)
}

// buildProgram returns the automaton of a compiled expression. Each instruction becomes a state.
func buildProgram(prog *syntax.Prog, budget *Budget) (*DFA, error) {
	b := NewBuilder(budget)
	source := b.AddState()
	target := b.AddState()
	base := b.AddState()
	for range prog.Inst[1:] {
		b.AddState()
	}
	b.AddEmpty(source, base+int32(prog.Start))

	var begins, ends []stateEdge // anchors
	for i := range prog.Inst {
		inst := &prog.Inst[i]
		edge := stateEdge{base + int32(i), base + int32(inst.Out)}
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
			b.AddEmpty(edge.from, target)
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			ranges := runeRanges(inst)
			for k := 0; k < len(ranges); k += 2 {
				b.AddRunes(edge.from, edge.to, ranges[k], ranges[k+1])
			}
		}
	}
	if !b.full && len(begins)+len(ends) > 0 {
		b.addAnchors(source, target, begins, ends)
	}
	return b.Build(source, target)
}

// findOperator returns the first part of an expression with one of some operators, nil if none has.
func findOperator(re *syntax.Regexp, ops ...syntax.Op) *syntax.Regexp {
	if slices.Contains(ops, re.Op) {
		return re
	}
	for _, sub := range re.Sub {
		if part := findOperator(sub, ops...); part != nil {
			return part
		}
	}
	return nil
}

// countInstructions returns about how many instructions an expression has, or a number above 1<<30.
// It is known before the program is made, which for nested repeats may be larger than memory.
func countInstructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+countInstructions(sub), 1<<30)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// runeRanges returns the first and the last character of each range that an instruction reads.
func runeRanges(inst *syntax.Inst) []rune {
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

// stateEdge is an edge that reads nothing.
type stateEdge struct{ from, to int32 }

// addAnchors turns anchors of the beginning and of the end of a text into edges that read nothing
// and can always be taken. No edge leads to source, and none leads away from target. So what
// follows an anchor of the beginning follows source, if the anchor is reached from there without
// reading, and likewise at the end. In the empty text both hold.
func (b *Builder) addAnchors(source, target int32, begins, ends []stateEdge) {
	var empty []stateEdge
	for s := range b.states {
		for k := b.states[s].empty; k > 0; k = b.empty[k-1].previous {
			empty = append(empty, stateEdge{int32(s), b.empty[k-1].to})
		}
	}
	var backwards []stateEdge
	for _, e := range slices.Concat(empty, ends) {
		backwards = append(backwards, stateEdge{e.to, e.from})
	}
	n := len(b.states)
	// An anchor holds where only edges that read nothing, and anchors of its kind, lead to it.
	fromBegin := edgeCounts(n, source, slices.Concat(empty, begins))
	fromEnd := edgeCounts(n, target, backwards)
	inEmptyText := edgeCounts(n, source, slices.Concat(empty, begins, ends))
	for _, e := range begins {
		if fromBegin[e.from] >= 0 {
			b.AddEmpty(source, e.to)
		}
	}
	for _, e := range ends {
		if fromEnd[e.to] >= 0 {
			b.AddEmpty(e.from, target)
		}
	}
	if inEmptyText[target] >= 0 {
		b.AddEmpty(source, target)
	}
}

// edgeCounts returns how many of the edges lead to each of n states from one, -1 for none.
func edgeCounts(n int, source int32, edges []stateEdge) []int32 {
	next := make([][]int32, n)
	for _, e := range edges {
		next[e.from] = append(next[e.from], e.to)
	}
	start := make([]bool, n)
	start[source] = true
	return distances(start, func(s int32) []int32 { return next[s] })
}

// withoutEmptyRepeats returns an expression of the same texts in which what is repeated is not
// empty: what may be repeated n times and may be empty is repeated up to n times. Otherwise a state
// would lead to all n copies at once without reading, and sets of states grow with n.
func withoutEmptyRepeats(re *syntax.Regexp) *syntax.Regexp {
	out := *re
	out.Sub = nil
	for _, sub := range re.Sub {
		out.Sub = append(out.Sub, withoutEmptyRepeats(sub))
	}
	if re.Op != syntax.OpRepeat || re.Max == 0 {
		return &out
	}
	part, matchesEmpty := removeEmpty(out.Sub[0])
	if matchesEmpty {
		out.Min = 0
		out.Sub[0] = part
		if part.Op == syntax.OpPlus {
			out.Sub[0] = part.Sub[0]
			out.Max = -1
		}
	}
	return &out
}

// removeEmpty returns what re matches but for the empty text, if it is easy to see that it matches
// that.
func removeEmpty(re *syntax.Regexp) (part *syntax.Regexp, matchesEmpty bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return &syntax.Regexp{Op: syntax.OpNoMatch}, true
	case syntax.OpCapture:
		return removeEmpty(re.Sub[0])
	case syntax.OpQuest, syntax.OpStar:
		part, _ = removeEmpty(re.Sub[0])
		if re.Op == syntax.OpStar {
			part = &syntax.Regexp{Op: syntax.OpPlus, Sub: []*syntax.Regexp{part}}
		}
		return part, true
	case syntax.OpAlternate:
		part = &syntax.Regexp{Op: syntax.OpAlternate}
		for _, sub := range re.Sub {
			alternative, mayBeEmpty := removeEmpty(sub)
			part.Sub = append(part.Sub, alternative)
			matchesEmpty = matchesEmpty || mayBeEmpty
		}
		return part, matchesEmpty
	}
	return re, false
}

// AddAnyRune adds a way that reads one character in UTF-8.
func (b *Builder) AddAnyRune(source, target int32) {
	b.AddRunes(source, target, 0, unicode.MaxRune)
}

// AddRunes adds a way that reads one character of lo to hi, in UTF-8. Surrogates are no characters.
func (b *Builder) AddRunes(source, target int32, lo, hi rune) {
	const firstSurrogate, lastSurrogate = 0xd800, 0xdfff
	if lo < firstSurrogate && hi >= firstSurrogate {
		b.AddRunes(source, target, lo, firstSurrogate-1)
		lo = firstSurrogate
	}
	if lo >= firstSurrogate && lo <= lastSurrogate {
		lo = lastSurrogate + 1
	}
	for _, longest := range []rune{0x7f, 0x7ff, 0xffff} { // the last characters of a length in bytes
		if lo <= longest && longest < hi {
			b.AddRunes(source, target, lo, longest)
			lo = longest + 1
		}
	}
	if lo > hi {
		return
	}
	if hi < utf8.RuneSelf {
		b.AddRange(source, target, byte(lo), byte(hi))
		return
	}

	// The bytes after the first cover all values, or one. Where they do not, the range is divided.
	for i := 1; i < utf8.RuneLen(lo); i++ {
		mask := rune(1)<<(6*i) - 1 // the bits of the last i bytes
		if lo&^mask == hi&^mask {
			continue
		}
		if lo&mask != 0 {
			b.AddRunes(source, target, lo, lo|mask)
			b.AddRunes(source, target, (lo|mask)+1, hi)
			return
		}
		if hi&mask != mask {
			b.AddRunes(source, target, lo, hi&^mask-1)
			b.AddRunes(source, target, hi&^mask, hi)
			return
		}
	}
	var first, last [utf8.UTFMax]byte
	n := utf8.EncodeRune(first[:], lo)
	utf8.EncodeRune(last[:], hi)
	for i := range n - 1 {
		next := b.AddState()
		b.AddRange(source, next, first[i], last[i])
		source = next
	}
	b.AddRange(source, target, first[n-1], last[n-1])
}
