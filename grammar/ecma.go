package grammar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Classes of ECMA 262 (22.2.2.9, CharacterClassEscape) as members of classes of RE2: WhiteSpace and
// LineTerminator, and all other characters. Each begins and ends with a class, so that it is no
// bound of a range; surrogates are in no text.
const (
	space = `\pZ\t-\r\x{feff}\pZ`
	solid = `\p{Cs}\x00-\x08\x0e-\x1f!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}` +
		`\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}\p{Cs}`
)

// ecma rewrites regular expressions of ECMA 262 with the flag u (ECMAScript 2025, 22.2.1) in the
// syntax of RE2. Beyond the flag, it reads what can have one meaning only: escapes of punctuation,
// and braces and brackets that open nothing.
type ecma struct {
	rest string
	out  strings.Builder
}

// next reports whether the expression goes on with a prefix, and reads it.
func (p *ecma) next(prefix string) (ok bool) {
	p.rest, ok = strings.CutPrefix(p.rest, prefix)
	return ok
}

// rune reads a character.
func (p *ecma) rune() rune {
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

// rewrite returns the expression in the syntax of RE2.
func (p *ecma) rewrite() (string, error) {
	inClass := false
	for p.rest != "" {
		before := p.rest
		switch {
		case p.next(`\`):
			text, ok := p.escape(inClass)
			if !ok {
				return "", fmt.Errorf("%.8s is not read", before)
			}
			p.out.WriteString(text)
		case inClass && p.next("["):
			p.out.WriteString(`\[`)
		case !inClass && p.next("."):
			p.out.WriteString(`[^\n\r\x{2028}\x{2029}]`)
		case !inClass && p.next("[]"):
			p.out.WriteString(`\p{Cs}`)
		case !inClass && p.next("[^]"):
			p.out.WriteString(`(?s:.)`)
		case !inClass && p.next("(?"):
			after := strings.TrimPrefix(p.rest, "<")
			if after == p.rest && !p.next(":") || after != p.rest && strings.IndexAny(after, "=!") == 0 {
				return "", fmt.Errorf("%.4s is not read", before)
			}
			p.out.WriteString(strings.TrimSuffix(before, p.rest))
		default:
			r := p.rune()
			inClass = r != ']' && (inClass || r == '[')
			p.out.WriteRune(r)
			if r == '[' && p.next("^") {
				p.out.WriteByte('^')
			}
		}
	}
	return p.out.String(), nil
}

// escape rewrites what a \ begins, in a class or not.
func (p *ecma) escape(inClass bool) (text string, ok bool) {
	if p.rest == "" {
		return "", false
	}
	switch r := p.rune(); {
	case r == 's' || r == 'S':
		text = map[rune]string{'s': space, 'S': solid}[r]
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
	case r == 'c' && p.rest != "" && letter(rune(p.rest[0])):
		return fmt.Sprintf(`\x%02x`, p.rune()&31), true
	case r == 'x' || r == 'u':
		x, ok := p.point(r)
		return fmt.Sprintf(`\x{%x}`, x), ok
	case r >= utf8.RuneSelf:
		return string(r), true
	default:
		return `\` + string(r), strings.ContainsRune("dDwWfnrtv", r) || !letter(r) && (r < '1' || r > '9')
	}
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// point reads a code point after \x, of two digits, or \u: in braces, of four digits, or of two
// surrogates.
func (p *ecma) point(after rune) (rune, bool) {
	hex := func(n int) (rune, bool) {
		if len(p.rest) < n {
			return 0, false
		}
		x, err := strconv.ParseUint(p.rest[:n], 16, 32)
		p.rest = p.rest[n:]
		return rune(x), err == nil && x <= utf8.MaxRune
	}
	if after == 'x' {
		return hex(2)
	}
	if p.next("{") {
		x, ok := hex(max(strings.IndexByte(p.rest, '}'), 0))
		return x, ok && p.next("}")
	}
	x, ok := hex(4)
	if after := p.rest; p.next(`\u`) {
		if low, isHex := hex(4); isHex && utf16.DecodeRune(x, low) != utf8.RuneError {
			return utf16.DecodeRune(x, low), ok
		}
		p.rest = after
	}
	return x, ok
}
