package chat

import (
	"slices"
	"strings"
)

// Limits of a template and of one rendering; exceeding one is an error.
const (
	MaxSource = 1 << 20 // bytes of a template
	maxDepth  = 100     // of nested brackets, statements, values and calls
	maxSteps  = 2_000_000
	maxMade   = 64 << 20 // most bytes that a rendering may make, written or not
	maxRange  = 100_000  // as in Jinja's sandbox
)

type parser struct {
	tokens []token
	depth  int
	loops  int
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) next() token {
	t := p.tokens[0]
	if t.kind != eof {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) is(k kind, text string) bool { return p.peek().kind == k && p.peek().text == text }

func (p *parser) skip(k kind, text string) bool {
	if p.is(k, text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) want(k kind, text string) {
	if t := p.next(); t.kind != k || t.text != text {
		fail("line %d: found %.40q, want %q", t.line, t.text, text)
	}
}

func (p *parser) wantName() string {
	t := p.next()
	if t.kind != name {
		fail("line %d: found %.40q, want a name", t.line, t.text)
	}
	return t.text
}

// deeper adds one level of nesting until the function that it returns is called.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > maxDepth {
		fail("line %d: nested deeper than %d", p.peek().line, maxDepth)
	}
	return func() { p.depth-- }
}

// body reads statements up to a tag named in ends and returns that name; the rest of the tag is
// left.
func (p *parser) body(ends ...string) ([]stmt, string) {
	defer p.deeper()()
	var list []stmt
	for {
		t := p.next()
		switch {
		case t.kind == eof:
			if len(ends) > 0 {
				fail("line %d: template ends, want %s", t.line, strings.Join(ends, " or "))
			}
			return list, ""
		case t.kind == data:
			list = append(list, raw{t.text})
		case t.text == "}}":
			list = append(list, output{p.tuple(true)})
			p.want(finish, "}}")
		default:
			word := p.wantName()
			if slices.Contains(ends, word) {
				return list, word
			}
			list = append(list, p.statement(word, t.line)...)
		}
	}
}

func (p *parser) statement(word string, line int) []stmt {
	switch word {
	case "if":
		return []stmt{p.branch()}
	case "for":
		return []stmt{p.loop()}
	case "set":
		return []stmt{p.set()}
	case "macro":
		return []stmt{p.macro()}
	case "call":
		return []stmt{p.call()}
	case "filter":
		b := block{x: p.filters(p.filter(variable{bodyName}))}
		b.body = p.inside("endfilter")
		return []stmt{b}
	case "raw":
		fail("line %d: statement raw is not done here", line)
	case "include", "import", "from", "extends", "print",
		"block", "autoescape", "with":
		for p.peek().kind != finish && p.peek().kind != eof {
			p.next()
		}
		p.want(finish, "%}")
		if word == "block" || word == "autoescape" || word == "with" {
			p.body("end" + word)
			p.skip(name, p.peek().text)
			p.want(finish, "%}")
		}
		return []stmt{refused{word}}
	case "break", "continue":
		if p.loops == 0 {
			fail("line %d: %s is outside a loop", line, word)
		}
		p.want(finish, "%}")
		return []stmt{jump{word}}
	case "generation": // marks what a model is trained to write
		return p.inside("endgeneration")
	}
	fail("line %d: statement %.40q is not known, want if, for, set, macro, call, filter, "+
		"break or continue", line, word)
	return nil
}

// inside reads the end of a tag, statements and the tag that ends them.
func (p *parser) inside(end string) []stmt {
	p.want(finish, "%}")
	body, _ := p.body(end)
	p.want(finish, "%}")
	return body
}

// bodyName is the variable of a filter block's body, which no template can name.
const bodyName = "the body"

func (p *parser) call() stmt {
	m := define{name: "caller"}
	if p.is(operator, "(") {
		p.signature(&m)
	}
	line := p.peek().line
	x, ok := p.expression(true).(calling)
	if !ok {
		fail("line %d: call is not followed by a call of a macro", line)
	}
	m.body = p.inside("endcall")
	return block{call: &m, x: x}
}

func (p *parser) branch() stmt {
	var b branch
	word := "if"
	for {
		if word != "else" {
			b.tests = append(b.tests, p.tuple(false))
		}
		p.want(finish, "%}")
		ends := []string{"elif", "else", "endif"}
		if word == "else" {
			ends = ends[2:]
		}
		var body []stmt
		body, word = p.body(ends...)
		b.bodies = append(b.bodies, body)
		if word == "endif" {
			p.want(finish, "%}")
			return b
		}
	}
}

func (p *parser) loop() stmt {
	var l loop
	l.target = p.targets()
	p.want(name, "in")
	l.over = p.tuple(false)
	if p.skip(name, "if") {
		l.test = p.expression(true)
	}
	l.recursive = p.skip(name, "recursive")
	p.want(finish, "%}")
	p.loops++
	var word string
	l.body, word = p.body("else", "endfor")
	p.loops--
	if word == "else" {
		p.want(finish, "%}")
		l.none, _ = p.body("endfor")
	}
	p.want(finish, "%}")
	return l
}

// targets reads the names that a loop or set assigns.
func (p *parser) targets() expr {
	if p.skip(operator, "(") {
		t := p.targets()
		p.want(operator, ")")
		return t
	}
	first := variable{p.wantName()}
	if !p.is(operator, ",") {
		return first
	}
	all := tupling{[]expr{first}}
	for p.skip(operator, ",") {
		if p.peek().kind != name || p.is(name, "in") {
			break
		}
		all.items = append(all.items, variable{p.wantName()})
	}
	return all
}

func (p *parser) set() stmt {
	var a assign
	a.target = p.targets()
	if v, ok := a.target.(variable); ok && p.skip(operator, ".") {
		a.target = getAttr{v, p.wantName()}
	}
	if p.skip(operator, "=") {
		a.value = p.tuple(true)
		p.want(finish, "%}")
		return a
	}
	if p.is(operator, "|") {
		fail("line %d: set with filters is not done here", p.peek().line)
	}
	a.body = p.inside("endset")
	return a
}

func (p *parser) macro() stmt {
	m := define{name: p.wantName()}
	p.signature(&m)
	loops := p.loops
	p.loops = 0
	tokens := p.tokens
	m.body = p.inside("endmacro")
	for _, t := range tokens[:len(tokens)-len(p.tokens)] {
		m.varargs = m.varargs || t.kind == name && t.text == "varargs"
		m.kwargs = m.kwargs || t.kind == name && t.text == "kwargs"
		m.caller = m.caller || t.kind == name && t.text == "caller"
	}
	p.loops = loops
	return m
}

// signature reads the parameters of a macro in parentheses.
func (p *parser) signature(m *define) {
	p.want(operator, "(")
	for !p.skip(operator, ")") {
		if len(m.params) > 0 {
			p.want(operator, ",")
		}
		m.params = append(m.params, p.wantName())
		if p.skip(operator, "=") {
			m.defaults = append(m.defaults, p.expression(true))
		} else if len(m.defaults) > 0 {
			fail("line %d: macro %s has a parameter without default after one with", p.peek().line,
				m.name)
		}
	}
}
