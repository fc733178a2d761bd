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
	b := NewBuilder(budget)
	from, to := b.State(), b.State()
	c := &compiler{b: b}
	in := b.State()
	b.Empty(from, in)
	if search {
		b.AnyRune(in, in)
	}
	end := c.add(in, re)
	if search {
		after := b.State()
		b.Empty(end, after)
		b.AnyRune(after, after)
		end = after
	}
	b.Empty(end, to)
	if c.err != nil {
		return nil, c.err
	}
	if !b.full && len(c.begins)+len(c.ends) > 0 {
		c.anchor(from, to)
	}
	return b.DFA(from, to)
}

// compiler adds regular expressions to a builder. Anchors are edges that read nothing and are
// taken at the beginning or at the end of a text alone; they are kept apart until all are known.
type compiler struct {
	b            *Builder
	begins, ends []between
	err          error
}

type between struct{ from, to int32 }

// anchor turns anchors into edges. No edge leads to from, and none leads away from to, so what can
// be reached from the one with anchors of the beginning is reached at the beginning, and likewise
// at the end. In the empty text both hold.
func (c *compiler) anchor(from, to int32) {
	var empty, back []between
	for s := range c.b.states {
		for k := c.b.states[s].empty; k > 0; k = c.b.empty[k-1].next {
			empty = append(empty, between{int32(s), c.b.empty[k-1].to})
		}
	}
	for _, e := range slices.Concat(empty, c.ends) {
		back = append(back, between{e.to, e.from})
	}
	n := len(c.b.states)
	first := reached(n, from, slices.Concat(empty, c.begins))
	last := reached(n, to, back)
	both := reached(n, from, slices.Concat(empty, c.begins, c.ends))
	for _, e := range c.begins {
		if first[e.from] >= 0 {
			c.b.Empty(from, e.to)
		}
	}
	for _, e := range c.ends {
		if last[e.to] >= 0 {
			c.b.Empty(e.from, to)
		}
	}
	if both[to] >= 0 {
		c.b.Empty(from, to)
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

// either adds alternatives.
func (c *compiler) either(from int32, list []*syntax.Regexp) int32 {
	to := c.b.State()
	for _, one := range list {
		in := c.b.State()
		c.b.Empty(from, in)
		c.b.Empty(c.add(in, one), to)
	}
	return to
}

// literal adds characters one after the other, in both cases where case is ignored.
func (c *compiler) literal(from int32, re *syntax.Regexp) int32 {
	for _, r := range re.Rune {
		to := c.b.State()
		c.b.Runes(from, to, r, r)
		if re.Flags&syntax.FoldCase != 0 {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				c.b.Runes(from, to, f, f)
			}
		}
		from = to
	}
	return from
}

// add adds re after a state and returns its end.
func (c *compiler) add(from int32, re *syntax.Regexp) int32 {
	b := c.b
	if c.err != nil || b.full {
		return from
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
	case syntax.OpNoMatch:
		return b.State()
	case syntax.OpLiteral:
		return c.literal(from, re)
	case syntax.OpCharClass:
		to := b.State()
		for i := 0; i < len(re.Rune); i += 2 {
			b.Runes(from, to, re.Rune[i], re.Rune[i+1])
		}
		return to
	case syntax.OpAnyChar:
		to := b.State()
		b.AnyRune(from, to)
		return to
	case syntax.OpAnyCharNotNL:
		to := b.State()
		b.Runes(from, to, 0, '\n'-1)
		b.Runes(from, to, '\n'+1, unicode.MaxRune)
		return to
	case syntax.OpBeginText, syntax.OpEndText:
		to := b.State()
		if re.Op == syntax.OpBeginText {
			c.begins = append(c.begins, between{from, to})
		} else {
			c.ends = append(c.ends, between{from, to})
		}
		return to
	case syntax.OpCapture:
		return c.add(from, re.Sub[0])
	case syntax.OpStar:
		return c.repeat(from, re.Sub[0], 0, -1)
	case syntax.OpPlus:
		return c.repeat(from, re.Sub[0], 1, -1)
	case syntax.OpQuest:
		return c.repeat(from, re.Sub[0], 0, 1)
	case syntax.OpRepeat:
		return c.repeat(from, re.Sub[0], re.Min, re.Max)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			from = c.add(from, sub)
		}
	case syntax.OpAlternate:
		return c.either(from, re.Sub)
	default:
		c.err = refuse(re.String(), "it is about words or lines")
	}
	return from
}

// repeat adds re least to most times, -1 for any number. What may be empty counts as what is not,
// up to as often, so that a state does not lead to all copies at once.
func (c *compiler) repeat(from int32, re *syntax.Regexp, least, most int) int32 {
	b := c.b
	if rest, empty := nonempty(re); empty {
		re, least = rest, 0
		if re.Op == syntax.OpPlus && most != 0 {
			re, most = re.Sub[0], -1
		}
	}
	for range least {
		if b.full {
			return from
		}
		next := b.State()
		b.Empty(from, next)
		from = c.add(next, re)
	}
	to := b.State()
	b.Empty(from, to)
	if most < 0 {
		in := b.State()
		b.Empty(from, in)
		out := c.add(in, re)
		b.Empty(out, in)
		b.Empty(out, to)
	}
	for n := least; n < most && !b.full; n++ {
		in := b.State()
		b.Empty(from, in)
		from = c.add(in, re)
		b.Empty(from, to)
	}
	return to
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

// AnyRune adds a way that reads one character in UTF-8.
func (b *Builder) AnyRune(from, to int32) { b.Runes(from, to, 0, unicode.MaxRune) }

// Runes adds a way that reads one character of lo to hi, in UTF-8.
func (b *Builder) Runes(from, to int32, lo, hi rune) {
	const firstSurrogate, lastSurrogate = 0xd800, 0xdfff
	if lo < firstSurrogate && hi >= firstSurrogate {
		b.Runes(from, to, lo, firstSurrogate-1)
		lo = firstSurrogate
	}
	if lo >= firstSurrogate && lo <= lastSurrogate {
		if lo = lastSurrogate + 1; lo > hi {
			return
		}
	}
	for _, most := range []rune{0x7f, 0x7ff, 0xffff} { // characters of one length
		if lo <= most && most < hi {
			b.Runes(from, to, lo, most)
			lo = most + 1
		}
	}
	if lo > hi {
		return
	}
	if hi < utf8.RuneSelf {
		b.Range(from, to, byte(lo), byte(hi))
		return
	}
	for i := 1; i < utf8.RuneLen(lo); i++ { // bytes after the first cover all values or one
		mask := rune(1)<<(6*i) - 1
		if lo&^mask != hi&^mask {
			if lo&mask != 0 {
				b.Runes(from, to, lo, lo|mask)
				b.Runes(from, to, (lo|mask)+1, hi)
				return
			}
			if hi&mask != mask {
				b.Runes(from, to, lo, hi&^mask-1)
				b.Runes(from, to, hi&^mask, hi)
				return
			}
		}
	}
	var first, last [utf8.UTFMax]byte
	n := utf8.EncodeRune(first[:], lo)
	utf8.EncodeRune(last[:], hi)
	for i := range n - 1 {
		next := b.State()
		b.Range(from, next, first[i], last[i])
		from = next
	}
	b.Range(from, to, first[n-1], last[n-1])
}
