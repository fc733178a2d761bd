package chat

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// token is a piece of a template.
type token struct {
	kind kind
	text string // value of a name, operator, string or number
	line int
}

type kind uint8

const (
	data   kind = iota // text between tags
	begin              // {% or {{
	finish             // %} or }}
	name
	operator
	integer
	float
	quoted
	eof
)

// lexer divides a template into tokens as Jinja does with trim_blocks and lstrip_blocks: it removes
// the line end after a block or comment, and the white space before one that begins its line.
type lexer struct {
	src       string
	at        int
	lineStart bool // the last text read ended a line
	tokens    []token
	lines     int // line ends counted so far
	counted   int
}

func lex(src string) []token {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, lineStart: true}
	for l.at < len(l.src) {
		l.root()
	}
	l.put(eof, "end of template")
	return l.tokens
}

func (l *lexer) put(k kind, text string) {
	l.tokens = append(l.tokens, token{k, text, l.line()})
}

func (l *lexer) line() int {
	l.lines += strings.Count(l.src[l.counted:l.at], "\n")
	l.counted = l.at
	return 1 + l.lines
}

// root reads text up to the next tag, and the tag.
func (l *lexer) root() {
	text, start := l.src[l.at:], -1
	for i := 0; ; i++ {
		j := strings.IndexByte(text[i:], '{')
		if j < 0 || i+j+1 >= len(text) {
			break
		}
		if i += j; strings.IndexByte("{%#", text[i+1]) >= 0 {
			start = i
			break
		}
	}
	if start < 0 {
		l.data(text)
		l.at = len(l.src)
		return
	}
	tag := text[start+1]
	sign := byte(0)
	if start+2 < len(text) {
		sign = text[start+2]
	}
	before := text[:start]
	switch {
	case sign == '-':
		before = strings.TrimRightFunc(before, isSpace)
	case sign != '+' && tag != '{':
		line := strings.LastIndexByte(before, '\n') + 1
		if (line > 0 || l.lineStart) && strings.TrimFunc(before[line:], isSpace) == "" {
			before = before[:line]
		}
	}
	l.data(before)
	l.at += start + 2
	if sign == '-' || sign == '+' {
		l.at++
	}
	switch tag {
	case '#':
		l.comment()
	case '%':
		l.tag("%}")
	default:
		l.tag("}}")
	}
}

func (l *lexer) data(text string) {
	if text != "" {
		l.put(data, text)
	}
}

func (l *lexer) comment() {
	end := strings.Index(l.src[l.at:], "#}")
	if end < 0 {
		fail("line %d: comment is not closed, want #}", l.line())
	}
	sign := byte(0)
	if end > 0 {
		sign = l.src[l.at+end-1]
	}
	l.at += end + 2
	l.after(sign, true)
}

// after removes what a tag's end removes: all white space after -, one line end after a block.
func (l *lexer) after(sign byte, block bool) {
	end := l.at
	switch {
	case sign == '-':
		rest := strings.TrimLeftFunc(l.src[end:], isSpace)
		end = len(l.src) - len(rest)
	case sign != '+' && block && strings.HasPrefix(l.src[end:], "\n"):
		end++
	}
	l.lineStart = end > l.at && l.src[end-1] == '\n'
	l.at = end
}

// tag reads the tokens of a tag up to its end.
func (l *lexer) tag(end string) {
	l.put(begin, end)
	open := 0 // brackets
	for {
		l.at = len(l.src) - len(strings.TrimLeftFunc(l.src[l.at:], isSpace))
		rest := l.src[l.at:]
		if rest == "" {
			fail("line %d: tag is not closed, want %s", l.line(), end)
		}
		if open == 0 {
			sign := byte(0)
			if (rest[0] == '-' || rest[0] == '+' && end == "%}") && strings.HasPrefix(rest[1:], end) {
				sign, rest = rest[0], rest[1:]
			}
			if strings.HasPrefix(rest, end) {
				l.put(finish, end)
				l.at = len(l.src) - len(rest) + len(end)
				l.after(sign, end == "%}")
				return
			}
		}
		switch t := l.next(rest); {
		case t.kind != operator:
		case strings.Contains("([{", t.text):
			open++
		case strings.Contains(")]}", t.text):
			open--
		}
	}
}

// forms are the tokens of Jinja's lexer within a tag: 007 and 1__0 are two numbers, which no rule
// puts together.
var forms = []struct {
	kind kind
	form *regexp.Regexp
}{
	{float, regexp.MustCompile(
		`^([0-9]+_)*[0-9]+((\.([0-9]+_)*[0-9]+)?[eE][+-]?([0-9]+_)*[0-9]+|\.([0-9]+_)*[0-9]+)`)},
	{integer, regexp.MustCompile(`^(0[bB](_?[01])+|0[oO](_?[0-7])+|0[xX](_?[0-9a-fA-F])+|` +
		`[1-9](_?[0-9])*|0(_?0)*)`)},
	{name, regexp.MustCompile(`^[\pL\pN\pM_]+`)},
	{quoted, regexp.MustCompile(`^(?s:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")`)},
	{operator, regexp.MustCompile(`^(?://|\*\*|[=!><]=|[-+/*%~[\](){}><=.:|,!])`)},
}

// next adds the token that rest begins with.
func (l *lexer) next(rest string) token {
	for _, f := range forms {
		found := f.form.FindString(rest)
		if found == "" {
			continue
		}
		value := found
		switch f.kind {
		case float, integer:
			value = strings.ReplaceAll(found, "_", "")
		case quoted:
			value = l.unescape(found[1 : len(found)-1])
		}
		l.put(f.kind, value)
		l.at += len(found)
		return l.tokens[len(l.tokens)-1]
	}
	switch c, _ := utf8.DecodeRuneInString(rest); {
	case c == '\'' || c == '"':
		fail("line %d: string is not closed, want %c", l.line(), c)
	case c >= utf8.RuneSelf:
		fail("line %d: %q is not known here", l.line(), c)
	}
	fail("line %d: %q is not known here", l.line(), rest[:1])
	return token{}
}

func (l *lexer) unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		switch c := s[i]; c {
		case '\n':
		case '\\', '\'', '"':
			out.WriteByte(c)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			out.WriteByte("\a\bcde\fghijklm\nopq\rs\tu\v"[c-'a'])
		case 'x', 'u', 'U':
		default:
			if '0' <= c && c <= '7' || c == 'N' {
				fail("line %d: escape \\%c is not read here", l.line(), c)
			}
			out.WriteByte('\\')
			if c < utf8.RuneSelf {
				out.WriteByte(c)
				break
			}
			r, size := utf8.DecodeRuneInString(s[i:]) // as in Jinja, which escapes it before
			out.WriteString(quoteHex(r)[1:])
			i += size - 1
		}
		if digits > 0 {
			if i+digits >= len(s) {
				fail("line %d: escape \\%c wants %d digits", l.line(), s[i], digits)
			}
			v, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || !utf8.ValidRune(rune(v)) {
				fail("line %d: escape \\%c%s is no character", l.line(), s[i], s[i+1:i+1+digits])
			}
			out.WriteRune(rune(v))
			i += digits
		}
	}
	return out.String()
}
