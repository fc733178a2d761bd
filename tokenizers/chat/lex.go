package chat

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// token is a piece of a template: text between tags, or a part of a tag.
type token struct {
	kind tokenKind
	text string // value of a name, operator, string or number
	line int
}

type tokenKind uint8

const (
	textToken  tokenKind = iota // text between tags
	openToken                   // {% or {{; its text is the end that closes it
	closeToken                  // %} or }}
	nameToken
	operatorToken
	integerToken
	floatToken
	stringToken
	endToken
)

// lexer divides a template into tokens as Jinja does with trim_blocks and lstrip_blocks: it removes
// the line end after a block or comment, and the white space before one that begins its line.
type lexer struct {
	src    string
	pos    int // in src, of what is read next
	tokens []token

	// lineStart: what was read last ended a line.
	lineStart bool

	// countedLines are the line ends in the first countedBytes bytes.
	countedLines int
	countedBytes int
}

// lex returns the tokens of a template.
func lex(src string) []token {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, lineStart: true}
	for l.pos < len(l.src) {
		l.readUpToTag()
	}
	l.addToken(endToken, "end of template")
	return l.tokens
}

func (l *lexer) addToken(k tokenKind, text string) {
	l.tokens = append(l.tokens, token{k, text, l.lineNumber()})
}

// lineNumber returns the line at the position. It counts on from the last call, so that all calls
// together take time in proportion to the source.
func (l *lexer) lineNumber() int {
	l.countedLines += strings.Count(l.src[l.countedBytes:l.pos], "\n")
	l.countedBytes = l.pos
	return 1 + l.countedLines
}

// readUpToTag reads text up to the next tag, and the tag.
func (l *lexer) readUpToTag() {
	text := l.src[l.pos:]
	start := findTag(text)
	if start < 0 {
		l.addText(text)
		l.pos = len(l.src)
		return
	}
	tag := text[start+1]
	sign := byte(0) // of white space control: - removes it, + keeps what the settings would remove
	if start+2 < len(text) {
		sign = text[start+2]
	}
	textBefore := text[:start]
	switch {
	case sign == '-':
		textBefore = strings.TrimRightFunc(textBefore, isSpace)
	case sign != '+' && tag != '{':
		// lstrip_blocks: white space goes if the tag is the first thing in its line. Without a line
		// end in the text, the line may have begun with another tag.
		line := strings.LastIndexByte(textBefore, '\n') + 1
		if (line > 0 || l.lineStart) && strings.TrimFunc(textBefore[line:], isSpace) == "" {
			textBefore = textBefore[:line]
		}
	}
	l.addText(textBefore)
	l.pos += start + 2
	if sign == '-' || sign == '+' {
		l.pos++
	}
	switch tag {
	case '#':
		l.readComment()
	case '%':
		l.readTag("%}")
	default:
		l.readTag("}}")
	}
}

// findTag returns where the first tag or comment of a text begins, -1 for none.
func findTag(text string) int {
	for i := 0; ; i++ {
		n := strings.IndexByte(text[i:], '{')
		if n < 0 || i+n+1 >= len(text) {
			return -1
		}
		i += n
		if strings.IndexByte("{%#", text[i+1]) >= 0 {
			return i
		}
	}
}

// addText adds text between tags. An empty one is no token.
func (l *lexer) addText(text string) {
	if text != "" {
		l.addToken(textToken, text)
	}
}

// readComment passes over a comment, which removes the white space around it as a block does.
func (l *lexer) readComment() {
	end := strings.Index(l.src[l.pos:], "#}")
	if end < 0 {
		fail("line %d: comment is not closed, want #}", l.lineNumber())
	}
	sign := byte(0)
	if end > 0 {
		sign = l.src[l.pos+end-1]
	}
	l.pos += end + 2
	l.trimAfter(sign, true)
}

// trimAfter removes what a tag's end removes: all white space after -, one line end after a block.
func (l *lexer) trimAfter(sign byte, block bool) {
	end := l.pos
	switch {
	case sign == '-':
		trimmed := strings.TrimLeftFunc(l.src[end:], isSpace)
		end = len(l.src) - len(trimmed)
	case sign != '+' && block && strings.HasPrefix(l.src[end:], "\n"):
		end++
	}
	l.lineStart = end > l.pos && l.src[end-1] == '\n'
	l.pos = end
}

// readTag reads the tokens of a tag up to its end.
func (l *lexer) readTag(end string) {
	l.addToken(openToken, end)
	openBrackets := 0
	for {
		l.pos = len(l.src) - len(strings.TrimLeftFunc(l.src[l.pos:], isSpace))
		unread := l.src[l.pos:]
		if unread == "" {
			fail("line %d: tag is not closed, want %s", l.lineNumber(), end)
		}
		if openBrackets == 0 { // in brackets, }} closes two dicts
			sign := byte(0)
			unsigned := unread
			hasSign := unread[0] == '-' || unread[0] == '+' && end == "%}"
			if hasSign && strings.HasPrefix(unread[1:], end) {
				sign = unread[0]
				unsigned = unread[1:]
			}
			if strings.HasPrefix(unsigned, end) {
				l.addToken(closeToken, end)
				l.pos = len(l.src) - len(unsigned) + len(end)
				l.trimAfter(sign, end == "%}")
				return
			}
		}
		t := l.readToken(unread)
		switch {
		case t.kind != operatorToken:
		case strings.Contains("([{", t.text):
			openBrackets++
		case strings.Contains(")]}", t.text):
			openBrackets--
		}
	}
}

// tokenForms are the tokens of Jinja's lexer within a tag: 007 and 1__0 are two numbers, which no
// rule puts together.
var tokenForms = []struct {
	kind tokenKind
	form *regexp.Regexp
}{
	{floatToken, regexp.MustCompile(
		`^([0-9]+_)*[0-9]+((\.([0-9]+_)*[0-9]+)?[eE][+-]?([0-9]+_)*[0-9]+|\.([0-9]+_)*[0-9]+)`)},
	{integerToken, regexp.MustCompile(`^(0[bB](_?[01])+|0[oO](_?[0-7])+|0[xX](_?[0-9a-fA-F])+|` +
		`[1-9](_?[0-9])*|0(_?0)*)`)},
	{nameToken, regexp.MustCompile(`^[\pL\pN\pM_]+`)},
	{stringToken, regexp.MustCompile(`^(?s:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")`)},
	{operatorToken, regexp.MustCompile(`^(?://|\*\*|[=!><]=|[-+/*%~[\](){}><=.:|,!])`)},
}

// readToken adds and returns the token that unread begins with.
func (l *lexer) readToken(unread string) token {
	for _, f := range tokenForms {
		match := f.form.FindString(unread)
		if match == "" {
			continue
		}
		value := match
		switch f.kind {
		case floatToken, integerToken:
			value = strings.ReplaceAll(match, "_", "")
		case stringToken:
			value = l.unescapeString(match[1 : len(match)-1])
		}
		l.addToken(f.kind, value)
		l.pos += len(match)
		return l.tokens[len(l.tokens)-1]
	}
	c, _ := utf8.DecodeRuneInString(unread)
	switch {
	case c == '\'' || c == '"':
		fail("line %d: string is not closed, want %c", l.lineNumber(), c)
	case c >= utf8.RuneSelf:
		fail("line %d: %q is not supported", l.lineNumber(), c)
	}
	fail("line %d: %q is not supported", l.lineNumber(), unread[:1])
	return token{}
}

// unescapeString returns what a string's escapes stand for in Python. An unknown one stays with its
// backslash.
func (l *lexer) unescapeString(s string) string {
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
				fail("line %d: escape \\%c is not supported", l.lineNumber(), c)
			}
			out.WriteByte('\\')
			if c < utf8.RuneSelf {
				out.WriteByte(c)
				break
			}
			r, size := utf8.DecodeRuneInString(s[i:]) // as in Jinja, which escapes it before
			out.WriteString(escapeByNumber(r)[1:])
			i += size - 1
		}
		if digits > 0 {
			if i+digits >= len(s) {
				fail("line %d: escape \\%c wants %d digits", l.lineNumber(), s[i], digits)
			}
			v, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || !utf8.ValidRune(rune(v)) {
				fail("line %d: escape \\%c%s is no character", l.lineNumber(), s[i], s[i+1:i+1+digits])
			}
			out.WriteRune(rune(v))
			i += digits
		}
	}
	return out.String()
}
