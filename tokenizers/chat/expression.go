package chat

import (
	"slices"
	"strconv"
	"strings"
)

// constant is the expression of a value.
func constant(v any) expr { return compute(func(*run, *scope) any { return v }) }

// variable is the expression of a name.
func variable(name string) expr {
	return compute(func(_ *run, s *scope) any { return s.get(name) })
}

// listing is the expression of a list or a tuple.
func listing(items []expr, tuple bool) expr {
	return compute(func(r *run, s *scope) any {
		l := r.newList(r.evalAll(items, s))
		l.tuple = tuple
		return l
	})
}

// tuple reads an expression, or several separated by commas as a tuple.
func (p *parser) tuple(conditional bool) expr {
	first := p.expression(conditional)
	if !p.is(operator, ",") {
		return first
	}
	all := []expr{first}
	for p.skip(operator, ",") {
		if t := p.peek(); t.kind == finish || t.kind == eof || p.is(operator, ")") {
			break
		}
		all = append(all, p.expression(conditional))
	}
	return listing(all, true)
}

// expression reads an expression, with an inline if where `conditional` is set.
func (p *parser) expression(conditional bool) expr {
	defer p.deeper()()
	x := p.or()
	for conditional && p.skip(name, "if") {
		test, yes, no := p.or(), x, constant(undefined{"the inline if-expression without else"})
		if p.skip(name, "else") {
			no = p.expression(true)
		}
		x = compute(func(r *run, s *scope) any {
			if truth(r.eval(test, s)) {
				return r.eval(yes, s)
			}
			return r.eval(no, s)
		})
	}
	return x
}

func (p *parser) or() expr  { return p.logical("or", p.and) }
func (p *parser) and() expr { return p.logical("and", p.not) }

// logical reads a chain of or, or of and, whose value is the first that decides it or the last.
func (p *parser) logical(word string, part func() expr) expr {
	x := part()
	for n := 0; p.skip(name, word); n++ {
		a, b := x, part()
		x = p.chained(n, compute(func(r *run, s *scope) any {
			if v := r.eval(a, s); truth(v) == (word == "or") {
				return v
			}
			return r.eval(b, s)
		}))
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
		return signed("not", p.not())
	}
	return p.compare()
}

// signed is the expression of an operator before another one.
func signed(op string, x expr) expr {
	return compute(func(r *run, s *scope) any { return r.unary(op, r.eval(x, s)) })
}

// compare reads a op1 b op2 c ...
func (p *parser) compare() expr {
	first := p.sum()
	var ops []string
	var rest []expr
	for op := p.comparison(); op != ""; op = p.comparison() {
		ops, rest = append(ops, op), append(rest, p.sum())
	}
	if ops == nil {
		return first
	}
	return compute(func(r *run, s *scope) any {
		a := r.eval(first, s)
		for i, op := range ops {
			b := r.eval(rest[i], s)
			if !r.compare(op, a, b) {
				return false
			}
			a = b
		}
		return true
	})
}

// comparison reads an operator that compares, "" if there is none.
func (p *parser) comparison() string {
	t := p.peek()
	switch {
	case t.kind == operator && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text),
		p.is(name, "in"):
		return p.next().text
	case p.is(name, "not") && p.tokens[1].kind == name && p.tokens[1].text == "in":
		p.next()
		p.next()
		return "not in"
	}
	return ""
}

func (p *parser) sum() expr { return p.chain(p.concat, "+", "-") }
func (p *parser) concat() expr {
	return p.chain(func() expr { return p.chain(p.power, "*", "/", "//", "%") }, "~")
}
func (p *parser) power() expr { return p.chain(func() expr { return p.unary(true) }, "**") }

func (p *parser) chain(part func() expr, ops ...string) expr {
	x := part()
	for n := 0; p.peek().kind == operator && slices.Contains(ops, p.peek().text); n++ {
		op, a, b := p.next().text, x, part()
		x = p.chained(n, compute(func(r *run, s *scope) any {
			return r.binary(op, r.eval(a, s), r.eval(b, s))
		}))
	}
	return x
}

func (p *parser) unary(filters bool) expr {
	defer p.deeper()()
	var x expr
	if p.is(operator, "-") || p.is(operator, "+") {
		x = signed(p.next().text, p.unary(false))
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
			return constant(true)
		case "false", "False":
			return constant(false)
		case "none", "None":
			return constant(nil)
		}
		return variable(t.text)
	case quoted:
		var s strings.Builder
		s.WriteString(t.text)
		for p.peek().kind == quoted {
			s.WriteString(p.next().text)
		}
		return constant(text{s: s.String()})
	case integer:
		v, err := strconv.ParseInt(t.text, 0, 64) // with 0x, 0o and 0b
		if err != nil {
			fail("line %d: %.40s is not a whole number of 64 bits", t.line, t.text)
		}
		return constant(v)
	case float:
		v, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			fail("line %d: %.40s is too large", t.line, t.text)
		}
		return constant(v)
	case operator:
		switch t.text {
		case "(":
			if p.skip(operator, ")") {
				return listing(nil, true)
			}
			x := p.tuple(true)
			p.want(operator, ")")
			return x
		case "[":
			return listing(p.items("]"), false)
		case "{":
			return p.mapping()
		}
	}
	fail("line %d: found %.40q, want a value", t.line, t.text)
	return nil
}

// listed reads items with commas between them, and one more where wanted, up to end.
func (p *parser) listed(end string, item func()) {
	for first := true; !p.skip(operator, end); first = false {
		if !first {
			p.want(operator, ",")
			if p.skip(operator, end) {
				break
			}
		}
		item()
	}
}

func (p *parser) items(end string) (list []expr) {
	p.listed(end, func() { list = append(list, p.expression(true)) })
	return list
}

func (p *parser) mapping() expr {
	var keys, values []expr
	p.listed("}", func() {
		keys = append(keys, p.expression(true))
		p.want(operator, ":")
		values = append(values, p.expression(true))
	})
	return compute(func(r *run, s *scope) any {
		d := newDict()
		for i := range keys {
			d.set(r.key(r.eval(keys[i], s)), r.eval(values[i], s))
		}
		r.made(32 * len(d.keys))
		return d
	})
}

func (p *parser) postfix(x expr) expr {
	for n := 0; p.peek().kind == operator; n++ {
		switch p.peek().text {
		case ".":
			p.next()
			t := p.next()
			switch t.kind {
			case name:
				of, field := x, text{s: t.text}
				x = compute(func(r *run, s *scope) any { return r.attribute(r.eval(of, s), field) })
			case integer:
				v, _ := strconv.ParseInt(t.text, 10, 64)
				x = element(x, constant(v))
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
		return element(x, parts[0])
	}
	return compute(func(r *run, s *scope) any {
		v := r.eval(x, s)
		var bounds [3]any
		for i, part := range parts {
			if part != nil {
				bounds[i] = r.eval(part, s)
			}
		}
		return r.slice(v, bounds)
	})
}

// element is the expression x[key].
func element(x, key expr) expr {
	return compute(func(r *run, s *scope) any { return r.item(r.eval(x, s), r.eval(key, s)) })
}

func (p *parser) arguments() (a arguments) {
	p.listed(")", func() {
		switch {
		case p.peek().kind == name && p.tokens[1].kind == operator && p.tokens[1].text == "=":
			a.names = append(a.names, p.next().text)
			p.next()
			a.named = append(a.named, p.expression(true))
		case len(a.named) > 0:
			fail("line %d: argument without a name after one with", p.peek().line)
		default:
			a.list = append(a.list, p.expression(true))
		}
	})
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
	name, args := p.dotted(), arguments{}
	if p.skip(operator, "(") {
		args = p.arguments()
	}
	return compute(func(r *run, s *scope) any {
		v := r.eval(x, s)
		list, named := args.values(r, s)
		return filterNamed(name)(r, v, list, named)
	})
}

func (p *parser) dotted() string {
	s := p.wantName()
	for p.skip(operator, ".") {
		s += "." + p.wantName()
	}
	return s
}

func (p *parser) test(x expr) expr {
	not := p.skip(name, "not")
	test, args, next := p.dotted(), arguments{}, p.peek()
	switch {
	case p.skip(operator, "("):
		args = p.arguments()
	case next.kind == quoted, next.kind == integer, next.kind == float, p.is(operator, "["),
		p.is(operator, "{"),
		next.kind == name && !slices.Contains([]string{"else", "or", "and"}, next.text):
		if p.is(name, "is") {
			fail("line %d: tests in a row, want one", next.line)
		}
		args.list = []expr{p.postfix(p.primary())}
	}
	return compute(func(r *run, s *scope) any {
		v := r.eval(x, s)
		list, named := args.values(r, s)
		if len(named.keys) > 0 {
			fail("test %q takes no named arguments", test)
		}
		return testNamed(test)(r, v, list) != not
	})
}
