package chat

import (
	"slices"
	"strconv"
	"strings"
)

// tuple reads an expression, or several separated by commas as a tuple.
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

// expression reads an expression, with an inline if where `conditional` is set.
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

// chained bounds the length of a chain of operators, whose value is nested as deep.
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
		var s strings.Builder
		s.WriteString(t.text)
		for p.peek().kind == quoted {
			s.WriteString(p.next().text)
		}
		return constant{text{s: s.String()}}
	case integer:
		v, err := strconv.ParseInt(t.text, 0, 64) // with 0x, 0o and 0b
		if err != nil {
			fail("line %d: %.40s is not a whole number of 64 bits", t.line, t.text)
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
			x = p.filter(x)
		case p.skip(name, "is"):
			x = p.test(x)
		case p.skip(operator, "("):
			x = calling{x, p.arguments()}
		default:
			return x
		}
	}
}

// filter reads the name and the arguments of a filter.
func (p *parser) filter(x expr) expr {
	f := filtering{x: x, name: p.dotted()}
	if p.skip(operator, "(") {
		f.args = p.arguments()
	}
	return f
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
	t.name = p.dotted()
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
