package grammar

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"unmask/param"
)

// Regexp returns the automaton of the texts that a whole regular expression matches, in the syntax
// of Go's package regexp (RE2). Word boundaries are refused.
func Regexp(expression string, budget *Budget) (*DFA, error) {
	re, err := parse(expression)
	if err != nil {
		return nil, err
	}
	d, err := marked(re, false, budget)
	if err == nil && d.Empty() {
		err = refuse(expression, "matches nothing")
	}
	return d, err
}

// Search returns the automaton of the texts in which a regular expression matches somewhere, as
// JSON Schema's pattern has it. It reads what ECMA 262 and RE2 have in common.
func Search(expression string, budget *Budget) (*DFA, error) {
	re, err := parse(ecma(expression))
	if err != nil {
		return nil, err
	}
	return marked(re, true, budget)
}

func parse(expression string) (*syntax.Regexp, error) {
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		what := err.Error()
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			what = fmt.Sprintf("%s: %.60s", e.Code, e.Expr)
		}
		return nil, refuse(expression, what)
	}
	return re.Simplify(), nil
}

// refuse returns the error of a regular expression.
func refuse(expression, what string) error {
	return &param.Error{Name: "regex", Found: fmt.Sprintf("%.80q: %s", expression, what),
		Want: "RE2's syntax without \\b"}
}

// ecma rewrites the escapes of ECMA 262 that RE2 lacks.
func ecma(expression string) string {
	var out strings.Builder
	for i := 0; i < len(expression); i++ {
		c := expression[i]
		if c != '\\' || i+1 == len(expression) {
			out.WriteByte(c)
			continue
		}
		i++
		switch next := expression[i]; {
		case next == 'u' && i+4 < len(expression) && hex(expression[i+1:i+5]):
			out.WriteString(`\x{` + expression[i+1:i+5] + "}")
			i += 4
		case next == 'c' && i+1 < len(expression):
			i++
			fmt.Fprintf(&out, `\x%02x`, expression[i]&31)
		case strings.IndexByte("dwDSWsbBnrtfvxpP0123456789", next) >= 0:
			out.WriteByte('\\')
			out.WriteByte(next)
		case next >= 'a' && next <= 'z' || next >= 'A' && next <= 'Z':
			out.WriteByte(next) // the identity in ECMA 262; \z, \Q and others mean something in RE2
		case next >= utf8.RuneSelf:
			out.WriteByte(next)
		default:
			out.WriteByte('\\')
			out.WriteByte(next)
		}
	}
	return out.String()
}

func hex(text string) bool {
	return strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// Marks of a text's beginning and end, which are no bytes of UTF-8.
const beginMark, endMark = 0xfe, 0xff

// marked returns the automaton of re. Anchors read the marks around a text: the automaton is of
// marked texts first, and then the marks are taken away.
func marked(re *syntax.Regexp, search bool, budget *Budget) (*DFA, error) {
	b := NewBuilder(budget)
	from, to := b.State(), b.State()
	r := &compiler{b: b}
	anything := func(s int32) {
		b.AnyRune(s, s)
		b.Range(s, s, beginMark, endMark)
	}
	in, out := b.State(), b.State()
	b.Empty(in, out)
	if search {
		anything(in)
	} else {
		optional := b.State()
		b.Range(in, optional, beginMark, beginMark)
		b.Empty(optional, out)
	}
	end := r.add(out, re)
	if search {
		anything(end)
		b.Empty(end, to)
	} else {
		b.Range(end, to, endMark, endMark)
		b.Empty(end, to)
	}
	b.Empty(from, in)
	if r.err != nil {
		return nil, r.err
	}
	d, err := b.DFA(from, to)
	if err != nil || d.Empty() {
		return d, err
	}
	return unmark(d, search), nil
}

// unmark returns the texts x for which d has the marked text. In a search, marks may be read
// anywhere, so d is asked for the text with both; otherwise each mark may be missing.
func unmark(d *DFA, search bool) *DFA {
	b := NewBuilder(nil)
	for range d.States() {
		b.State()
	}
	from, to := b.State(), b.State()
	for s := range int32(d.States()) {
		for _, e := range d.Out(s) {
			if e.Lo < beginMark {
				b.Range(s, e.To, e.Lo, min(e.Hi, beginMark-1))
			}
		}
		if t := d.Next(s, endMark); t >= 0 && d.accept[t] || d.accept[s] && !search {
			b.Empty(s, to)
		}
	}
	if s := d.Next(d.start, beginMark); s >= 0 {
		b.Empty(from, s)
	}
	if !search {
		b.Empty(from, d.start)
	}
	out, _ := b.DFA(from, to) // it has no limit
	return out
}

// compiler adds regular expressions to a builder.
type compiler struct {
	b   *Builder
	err error
}

// add adds re after a state and returns its end.
func (r *compiler) add(from int32, re *syntax.Regexp) int32 {
	b := r.b
	if r.err != nil || b.full {
		return from
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
	case syntax.OpNoMatch:
		return b.State()
	case syntax.OpLiteral:
		for _, c := range re.Rune {
			to := b.State()
			b.Runes(from, to, c, c)
			if re.Flags&syntax.FoldCase != 0 {
				for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
					b.Runes(from, to, f, f)
				}
			}
			from = to
		}
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
		mark := byte(beginMark)
		if re.Op == syntax.OpEndText {
			mark = endMark
		}
		b.Range(from, to, mark, mark)
		return to
	case syntax.OpCapture:
		return r.add(from, re.Sub[0])
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		return r.repeat(from, re)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			from = r.add(from, sub)
		}
	case syntax.OpAlternate:
		to := b.State()
		for _, sub := range re.Sub {
			in := b.State()
			b.Empty(from, in)
			b.Empty(r.add(in, sub), to)
		}
		return to
	default:
		r.err = refuse(re.String(), "it is about words or lines")
	}
	return from
}

func (r *compiler) repeat(from int32, re *syntax.Regexp) int32 {
	b := r.b
	in := b.State()
	b.Empty(from, in)
	out := r.add(in, re.Sub[0])
	to := b.State()
	b.Empty(out, to)
	if re.Op != syntax.OpQuest {
		b.Empty(out, in)
	}
	if re.Op != syntax.OpPlus {
		b.Empty(from, to)
	}
	return to
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
