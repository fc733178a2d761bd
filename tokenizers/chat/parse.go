package chat

import (
	"slices"
	"strconv"
	"strings"
)

// Limits of a template and of one rendering; what exceeds one ends in an error.
const (
	MaxSource = 1 << 20 // bytes of a template
	maxDepth  = 100     // of nested brackets, statements, values and calls
	maxSteps  = 2_000_000
	maxMade   = 64 << 20 // bytes that are made, whether they are written or not
	maxRange  = 100_000  // as Jinja's sandbox has it
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

// deeper counts nesting until the function that it returns is called.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > maxDepth {
		fail("line %d: nested deeper than %d", p.peek().line, maxDepth)
	}
	return func() { p.depth-- }
}

// body reads statements up to a tag named in ends, whose name it returns; the tag's rest is left.
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
	case "break", "continue":
		if p.loops == 0 {
			fail("line %d: %s is outside a loop", line, word)
		}
		p.want(finish, "%}")
		return []stmt{jump{word}}
	case "generation": // marks what a model is trained to write
		p.want(finish, "%}")
		body, _ := p.body("endgeneration")
		p.want(finish, "%}")
		return body
	}
	fail("line %d: statement %.40q is not known, want if, for, set, macro, break or continue", line,
		word)
	return nil
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
	if p.is(name, "recursive") {
		fail("line %d: recursive loops are not read here", p.peek().line)
	}
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

// targets reads the names that a loop or set fills.
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
	p.want(finish, "%}")
	a.body, _ = p.body("endset")
	p.want(finish, "%}")
	return a
}

func (p *parser) macro() stmt {
	m := define{name: p.wantName()}
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
	p.want(finish, "%}")
	loops := p.loops
	p.loops = 0
	m.body, _ = p.body("endmacro")
	p.loops = loops
	p.want(finish, "%}")
	return m
}

// tuple reads an expression, or several with commas as a tuple.
func (p *parser) tuple(conditional bool) expr {
	first := p.expression(conditional)
	if !p.is(operator, ",") {
		return first
	}
	all := tupling{[]expr{first}}
	for p.skip(operator, ",") {
		if t := p.peek(); t.kind == finish || t.kind == eof || p.is(operator, ")") {
			break
		}
		all.items = append(all.items, p.expression(conditional))
	}
	return all
}

// expression reads one, with an inline if where conditional is set.
func (p *parser) expression(conditional bool) expr {
	defer p.deeper()()
	x := p.or()
	for conditional && p.skip(name, "if") {
		c := choice{test: p.or(), yes: x}
		if p.skip(name, "else") {
			c.no = p.expression(true)
		}
		x = c
	}
	return x
}

func (p *parser) or() expr {
	x := p.and()
	for n := 0; p.skip(name, "or"); n++ {
		x = p.chained(n, binary{"or", x, p.and()})
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for n := 0; p.skip(name, "and"); n++ {
		x = p.chained(n, binary{"and", x, p.not()})
	}
	return x
}

// chained bounds how long a chain of operators is, since its value is made as deep.
func (p *parser) chained(n int, x expr) expr {
	if n > 50*maxDepth {
		fail("line %d: more than %d operators in a row", p.peek().line, 50*maxDepth)
	}
	return x
}

func (p *parser) not() expr {
	if p.skip(name, "not") {
		defer p.deeper()()
		return unary{"not", p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	x := p.sum()
	var c comparison
	for {
		op := ""
		t := p.peek()
		switch {
		case t.kind == operator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="},
			t.text):
			op = p.next().text
		case p.skip(name, "in"):
			op = "in"
		case p.is(name, "not") && p.tokens[1].kind == name && p.tokens[1].text == "in":
			p.next()
			p.next()
			op = "not in"
		default:
			if len(c.ops) == 0 {
				return x
			}
			return c
		}
		c.first = x
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, p.sum())
	}
}

func (p *parser) sum() expr { return p.chain(p.concat, "+", "-") }
func (p *parser) concat() expr {
	return p.chain(func() expr { return p.chain(p.power, "*", "/", "//", "%") }, "~")
}
func (p *parser) power() expr { return p.chain(func() expr { return p.unary(true) }, "**") }

func (p *parser) chain(part func() expr, ops ...string) expr {
	x := part()
	for n := 0; p.peek().kind == operator && slices.Contains(ops, p.peek().text); n++ {
		x = p.chained(n, binary{p.next().text, x, part()})
	}
	return x
}

func (p *parser) unary(filters bool) expr {
	defer p.deeper()()
	var x expr
	if p.is(operator, "-") || p.is(operator, "+") {
		x = unary{p.next().text, p.unary(false)}
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if filters {
		x = p.filters(x)
	}
	return x
}

func (p *parser) primary() expr {
	t := p.next()
	switch t.kind {
	case name:
		switch t.text {
		case "true", "True":
			return constant{true}
		case "false", "False":
			return constant{false}
		case "none", "None":
			return constant{nil}
		}
		return variable{t.text}
	case quoted:
		s := t.text
		for p.peek().kind == quoted {
			s += p.next().text
		}
		return constant{text{s: s}}
	case integer:
		v, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			fail("line %d: %.40s is too large", t.line, t.text)
		}
		return constant{v}
	case float:
		v, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			fail("line %d: %.40s is too large", t.line, t.text)
		}
		return constant{v}
	case operator:
		switch t.text {
		case "(":
			if p.skip(operator, ")") {
				return tupling{}
			}
			x := p.tuple(true)
			p.want(operator, ")")
			return x
		case "[":
			return listing{p.items("]")}
		case "{":
			return p.mapping()
		}
	}
	fail("line %d: found %.40q, want a value", t.line, t.text)
	return nil
}

func (p *parser) items(end string) []expr {
	var list []expr
	for !p.skip(operator, end) {
		if len(list) > 0 {
			p.want(operator, ",")
			if p.skip(operator, end) {
				break
			}
		}
		list = append(list, p.expression(true))
	}
	return list
}

func (p *parser) mapping() expr {
	var m mapping
	for !p.skip(operator, "}") {
		if len(m.keys) > 0 {
			p.want(operator, ",")
			if p.skip(operator, "}") {
				break
			}
		}
		m.keys = append(m.keys, p.expression(true))
		p.want(operator, ":")
		m.values = append(m.values, p.expression(true))
	}
	return m
}

func (p *parser) postfix(x expr) expr {
	for n := 0; p.peek().kind == operator; n++ {
		switch p.peek().text {
		case ".":
			p.next()
			t := p.next()
			switch t.kind {
			case name:
				x = getAttr{x, t.text}
			case integer:
				v, _ := strconv.ParseInt(t.text, 10, 64)
				x = getItem{x, constant{v}}
			default:
				fail("line %d: found %.40q, want a name", t.line, t.text)
			}
		case "[":
			p.next()
			x = p.subscript(x)
		case "(":
			p.next()
			x = calling{x, p.arguments()}
		default:
			return x
		}
		p.chained(n, x)
	}
	return x
}

// subscript reads [key] or [start:stop:step].
func (p *parser) subscript(x expr) expr {
	var parts [3]expr
	n := 0
	for !p.is(operator, "]") {
		if p.skip(operator, ":") {
			if n++; n == 3 {
				fail("line %d: slice has more than 3 parts", p.peek().line)
			}
			continue
		}
		if parts[n] != nil {
			fail("line %d: found %.40q, want ]", p.peek().line, p.peek().text)
		}
		parts[n] = p.expression(true)
	}
	p.next()
	if n == 0 {
		if parts[0] == nil {
			fail("line %d: [] without a key", p.peek().line)
		}
		return getItem{x, parts[0]}
	}
	return slicing{x, parts[0], parts[1], parts[2]}
}

func (p *parser) arguments() arguments {
	var a arguments
	for first := true; !p.skip(operator, ")"); first = false {
		if !first {
			p.want(operator, ",")
			if p.skip(operator, ")") {
				break
			}
		}
		if p.peek().kind == name && p.tokens[1].kind == operator && p.tokens[1].text == "=" {
			a.names = append(a.names, p.next().text)
			p.next()
			a.named = append(a.named, p.expression(true))
			continue
		}
		if len(a.named) > 0 {
			fail("line %d: argument without a name after one with", p.peek().line)
		}
		a.list = append(a.list, p.expression(true))
	}
	return a
}

func (p *parser) filters(x expr) expr {
	for n := 0; ; n++ {
		p.chained(n, x)
		switch {
		case p.skip(operator, "|"):
			t := p.peek()
			f := filtering{x: x, name: p.dotted()}
			if filters[f.name] == nil {
				fail("line %d: filter %.40q is not known", t.line, f.name)
			}
			if p.skip(operator, "(") {
				f.args = p.arguments()
			}
			x = f
		case p.skip(name, "is"):
			x = p.test(x)
		case p.skip(operator, "("):
			x = calling{x, p.arguments()}
		default:
			return x
		}
	}
}

func (p *parser) dotted() string {
	s := p.wantName()
	for p.skip(operator, ".") {
		s += "." + p.wantName()
	}
	return s
}

func (p *parser) test(x expr) expr {
	t := asking{x: x, not: p.skip(name, "not")}
	at := p.peek()
	t.name = p.dotted()
	if tests[t.name] == nil {
		fail("line %d: test %.40q is not known", at.line, t.name)
	}
	next := p.peek()
	switch {
	case p.skip(operator, "("):
		t.args = p.arguments()
	case next.kind == quoted, next.kind == integer, next.kind == float, p.is(operator,
		"["), p.is(operator, "{"),
		next.kind == name && !slices.Contains([]string{"else", "or", "and"}, next.text):
		if p.is(name, "is") {
			fail("line %d: tests in a row, want one", next.line)
		}
		t.args.list = []expr{p.postfix(p.primary())}
	}
	return t
}
