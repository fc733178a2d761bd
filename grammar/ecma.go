package grammar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Classes of ECMA 262 (22.2.2.9, CharacterClassEscape) as members of classes of RE2: WhiteSpace and
// LineTerminator, and all other characters. Each begins and ends with a class, so that a dash
// beside it makes no range; surrogates, at the ends of the second, are in no text.
const (
	whiteSpace    = `\pZ\t-\r\x{feff}\pZ`
	notWhiteSpace = `\p{Cs}\x00-\x08\x0e-\x1f!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}` +
		`\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}\p{Cs}`
)

// ecmaParser rewrites regular expressions of ECMA 262 with the flag u (ECMAScript 2025, 22.2.1) in
// the syntax of RE2. Beyond the flag, it reads what can have one meaning only: escapes of
// punctuation, and braces and brackets that open nothing. Schemas in the wild have many of these.
type ecmaParser struct {
	rest string
	out  strings.Builder
}

// skipPrefix reports whether the expression goes on with a prefix, and reads it.
func (p *ecmaParser) skipPrefix(prefix string) (ok bool) {
	p.rest, ok = strings.CutPrefix(p.rest, prefix)
	return ok
}

// readRune reads a character.
func (p *ecmaParser) readRune() rune {
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

// rewrite returns the expression in the syntax of RE2.
func (p *ecmaParser) rewrite() (string, error) {
	inClass := false
	for p.rest != "" {
		unread := p.rest
		switch {
		case p.skipPrefix(`\`):
			text, ok := p.rewriteEscape(inClass)
			if !ok {
				return "", fmt.Errorf("%.8s is not read", unread)
			}
			p.out.WriteString(text)
		case inClass && p.skipPrefix("["):
			p.out.WriteString(`\[`)
		case !inClass && p.skipPrefix("."):
			p.out.WriteString(`[^\n\r\x{2028}\x{2029}]`)
		case !inClass && p.skipPrefix("[]"):
			p.out.WriteString(`\p{Cs}`)
		case !inClass && p.skipPrefix("[^]"):
			p.out.WriteString(`(?s:.)`)
		case !inClass && p.skipPrefix("(?"):
			// (?:...) and (?<name>...), but no look-around
			name, named := strings.CutPrefix(p.rest, "<")
			if named && strings.IndexAny(name, "=!") == 0 || !named && !p.skipPrefix(":") {
				return "", fmt.Errorf("%.4s is not read", unread)
			}
			p.out.WriteString(strings.TrimSuffix(unread, p.rest))
		default:
			r := p.readRune()
			inClass = r != ']' && (inClass || r == '[')
			p.out.WriteRune(r)
			if r == '[' && p.skipPrefix("^") {
				p.out.WriteByte('^')
			}
		}
	}
	return p.out.String(), nil
}

// rewriteEscape rewrites what a \ begins, in a class or not. ok is false for what is not read.
func (p *ecmaParser) rewriteEscape(inClass bool) (text string, ok bool) {
	if p.rest == "" {
		return "", false
	}
	r := p.readRune()
	switch {
	case r == 's' || r == 'S':
		text = map[rune]string{'s': whiteSpace, 'S': notWhiteSpace}[r]
		if !inClass {
			text = "[" + text + "]"
		}
		return text, true
	case r == 'p' || r == 'P':
		for _, kind := range []string{"Script", "sc", "General_Category", "gc"} {
			if name, ok := strings.CutPrefix(p.rest, "{"+kind+"="); ok {
				p.rest = "{" + name
			}
		}
		return `\` + string(r), strings.HasPrefix(p.rest, "{")
	case r == 'b' && inClass:
		return `\x08`, true
	case r == '0':
		return `\x00`, p.rest == "" || p.rest[0] < '0' || p.rest[0] > '9'
	case r == 'c' && p.rest != "" && isLetter(rune(p.rest[0])):
		return fmt.Sprintf(`\x%02x`, p.readRune()&31), true
	case r == 'x' || r == 'u':
		x, ok := p.readCodePoint(r)
		return fmt.Sprintf(`\x{%x}`, x), ok
	case r >= utf8.RuneSelf:
		return string(r), true
	default:
		sameInRE2 := strings.ContainsRune("dDwWfnrtv", r)
		isReference := r >= '1' && r <= '9'
		return `\` + string(r), sameInRE2 || !isLetter(r) && !isReference
	}
}

// isLetter reports whether r is an ASCII letter.
func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// readCodePoint reads a code point after \x, of two digits, or \u: in braces, of four digits, or of
// two surrogates.
func (p *ecmaParser) readCodePoint(kind rune) (rune, bool) {
	readHex := func(n int) (rune, bool) {
		if len(p.rest) < n {
			return 0, false
		}
		x, err := strconv.ParseUint(p.rest[:n], 16, 32)
		p.rest = p.rest[n:]
		return rune(x), err == nil && x <= utf8.MaxRune
	}
	if kind == 'x' {
		return readHex(2)
	}
	if p.skipPrefix("{") {
		x, ok := readHex(max(strings.IndexByte(p.rest, '}'), 0))
		return x, ok && p.skipPrefix("}")
	}
	x, ok := readHex(4)
	unread := p.rest
	if p.skipPrefix(`\u`) {
		low, isHex := readHex(4)
		if pair := utf16.DecodeRune(x, low); isHex && pair != utf8.RuneError {
			return pair, ok
		}
		p.rest = unread // another character, which is no low surrogate
	}
	return x, ok
}
