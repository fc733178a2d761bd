package chat

import (
	"slices"
	"strconv"
	"strings"
)

// constantExpr is the expression of a value.
func constantExpr(v any) expr { return exprFunc(func(*run, *scope) any { return v }) }

// variableExpr is the expression of a name.
func variableExpr(name string) expr {
	return exprFunc(func(_ *run, s *scope) any { return s.lookup(name) })
}

// listExpr is the expression of a list or a tuple.
func listExpr(items []expr, tuple bool) expr {
	return exprFunc(func(r *run, s *scope) any {
		l := r.newList(r.evalAll(items, s))
		l.isTuple = tuple
		return l
	})
}

// parseTuple reads an expression, or several separated by commas as a tuple.
func (p *parser) parseTuple(conditional bool) expr {
	first := p.parseExpression(conditional)
	if !p.nextIs(operatorToken, ",") {
		return first
	}
	items := []expr{first}
	for p.accept(operatorToken, ",") {
		if t := p.peek(); t.kind == closeToken || t.kind == endToken || p.nextIs(operatorToken, ")") {
			break
		}
		items = append(items, p.parseExpression(conditional))
	}
	return listExpr(items, true)
}

// parseExpression reads an expression, with an inline if where conditional is set.
func (p *parser) parseExpression(conditional bool) expr {
	defer p.nest()()
	x := p.parseOr()
	for conditional && p.accept(nameToken, "if") {
		test := p.parseOr()
		then := x
		otherwise := constantExpr(undefined{"the inline if-expression without else"})
		if p.accept(nameToken, "else") {
			otherwise = p.parseExpression(true)
		}
		x = exprFunc(func(r *run, s *scope) any {
			if isTrue(r.eval(test, s)) {
				return r.eval(then, s)
			}
			return r.eval(otherwise, s)
		})
	}
	return x
}

func (p *parser) parseOr() expr  { return p.parseLogical("or", p.parseAnd) }
func (p *parser) parseAnd() expr { return p.parseLogical("and", p.parseNot) }

// parseLogical reads a chain of or, or of and, whose value is the first that decides it or the
// last.
func (p *parser) parseLogical(word string, part func() expr) expr {
	x := part()
	for n := 0; p.accept(nameToken, word); n++ {
		a := x
		b := part()
		x = p.boundChain(n, exprFunc(func(r *run, s *scope) any {
			if v := r.eval(a, s); isTrue(v) == (word == "or") {
				return v
			}
			return r.eval(b, s)
		}))
	}
	return x
}

// boundChain bounds the length of a chain of operators, and returns the chain. Computing its value
// nests as deep as the chain is long.
func (p *parser) boundChain(n int, x expr) expr {
	if n > 50*maxDepth {
		fail("line %d: more than %d operators in a row", p.peek().line, 50*maxDepth)
	}
	return x
}

// parseNot reads a comparison, which not may precede.
func (p *parser) parseNot() expr {
	if p.accept(nameToken, "not") {
		defer p.nest()()
		return unaryExpr("not", p.parseNot())
	}
	return p.parseComparison()
}

// unaryExpr is the expression of an operator before another one.
func unaryExpr(op string, x expr) expr {
	return exprFunc(func(r *run, s *scope) any { return r.applyUnary(op, r.eval(x, s)) })
}

// parseComparison reads a op1 b op2 c ..., which as in Python means a op1 b and b op2 c.
func (p *parser) parseComparison() expr {
	first := p.parseSum()
	var ops []string
	var operands []expr // after the first
	for op := p.acceptComparison(); op != ""; op = p.acceptComparison() {
		ops = append(ops, op)
		operands = append(operands, p.parseSum())
	}
	if ops == nil {
		return first
	}
	return exprFunc(func(r *run, s *scope) any {
		a := r.eval(first, s)
		for i, op := range ops {
			b := r.eval(operands[i], s)
			if !r.compare(op, a, b) {
				return false
			}
			a = b
		}
		return true
	})
}

// acceptComparison reads an operator that compares, "" if there is none.
func (p *parser) acceptComparison() string {
	t := p.peek()
	comparisons := []string{"==", "!=", "<", "<=", ">", ">="}
	switch {
	case t.kind == operatorToken && slices.Contains(comparisons, t.text),
		p.nextIs(nameToken, "in"):
		return p.next().text
	case p.nextIs(nameToken, "not") && p.tokens[1].kind == nameToken && p.tokens[1].text == "in":
		p.next()
		p.next()
		return "not in"
	}
	return ""
}

// The operators of arithmetic, from those that bind least: + and -; ~; * and its relatives; **.

func (p *parser) parseSum() expr { return p.parseChain(p.parseConcat, "+", "-") }

func (p *parser) parseConcat() expr { return p.parseChain(p.parseProduct, "~") }

func (p *parser) parseProduct() expr { return p.parseChain(p.parsePower, "*", "/", "//", "%") }

func (p *parser) parsePower() expr {
	return p.parseChain(func() expr { return p.parseUnary(true) }, "**")
}

// parseChain reads parts with some operators between them, computed from the left.
func (p *parser) parseChain(part func() expr, ops ...string) expr {
	x := part()
	for n := 0; p.peek().kind == operatorToken && slices.Contains(ops, p.peek().text); n++ {
		op := p.next().text
		a := x
		b := part()
		x = p.boundChain(n, exprFunc(func(r *run, s *scope) any {
			return r.applyBinary(op, r.eval(a, s), r.eval(b, s))
		}))
	}
	return x
}

// parseUnary reads a value with signs before it and, after it, what parsePostfix and, with filters,
// parseFilters read.
func (p *parser) parseUnary(filters bool) expr {
	defer p.nest()()
	var x expr
	if p.nextIs(operatorToken, "-") || p.nextIs(operatorToken, "+") {
		x = unaryExpr(p.next().text, p.parseUnary(false))
	} else {
		x = p.parsePrimary()
	}
	x = p.parsePostfix(x)
	if filters {
		x = p.parseFilters(x)
	}
	return x
}

// parsePrimary reads a name, a literal, or an expression in brackets.
func (p *parser) parsePrimary() expr {
	t := p.next()
	switch t.kind {
	case nameToken:
		switch t.text {
		case "true", "True":
			return constantExpr(true)
		case "false", "False":
			return constantExpr(false)
		case "none", "None":
			return constantExpr(nil)
		}
		return variableExpr(t.text)
	case stringToken:
		var s strings.Builder
		s.WriteString(t.text)
		for p.peek().kind == stringToken {
			s.WriteString(p.next().text)
		}
		return constantExpr(text{s: s.String()})
	case integerToken:
		v, err := strconv.ParseInt(t.text, 0, 64) // with 0x, 0o and 0b
		if err != nil {
			fail("line %d: %.40s is not a whole number of 64 bits", t.line, t.text)
		}
		return constantExpr(v)
	case floatToken:
		v, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			fail("line %d: %.40s is too large", t.line, t.text)
		}
		return constantExpr(v)
	case operatorToken:
		switch t.text {
		case "(":
			if p.accept(operatorToken, ")") {
				return listExpr(nil, true)
			}
			x := p.parseTuple(true)
			p.expect(operatorToken, ")")
			return x
		case "[":
			return listExpr(p.parseItems("]"), false)
		case "{":
			return p.parseDict()
		}
	}
	fail("line %d: found %.40q, want a value", t.line, t.text)
	return nil
}

// parseListed reads items with commas between them, and maybe one at the end, up to a bracket.
func (p *parser) parseListed(end string, parseItem func()) {
	for first := true; !p.accept(operatorToken, end); first = false {
		if !first {
			p.expect(operatorToken, ",")
			if p.accept(operatorToken, end) {
				break
			}
		}
		parseItem()
	}
}

func (p *parser) parseItems(end string) (list []expr) {
	p.parseListed(end, func() { list = append(list, p.parseExpression(true)) })
	return list
}

// parseDict reads a dictionary behind its {.
func (p *parser) parseDict() expr {
	var keys, values []expr
	p.parseListed("}", func() {
		keys = append(keys, p.parseExpression(true))
		p.expect(operatorToken, ":")
		values = append(values, p.parseExpression(true))
	})
	return exprFunc(func(r *run, s *scope) any {
		d := newDict()
		for i := range keys {
			d.set(r.countKey(r.eval(keys[i], s)), r.eval(values[i], s))
		}
		r.countMade(32 * len(d.keys))
		return d
	})
}

// parsePostfix reads attributes, subscripts and calls after a value.
func (p *parser) parsePostfix(x expr) expr {
	for n := 0; p.peek().kind == operatorToken; n++ {
		switch p.peek().text {
		case ".":
			p.next()
			t := p.next()
			switch t.kind {
			case nameToken:
				object := x
				field := text{s: t.text}
				x = exprFunc(func(r *run, s *scope) any {
					return r.attribute(r.eval(object, s), field)
				})
			case integerToken: // Jinja reads x.0 as x[0]
				v, _ := strconv.ParseInt(t.text, 10, 64)
				x = elementExpr(x, constantExpr(v))
			default:
				fail("line %d: found %.40q, want a name", t.line, t.text)
			}
		case "[":
			p.next()
			x = p.parseSubscript(x)
		case "(":
			p.next()
			x = callExpr{x, p.parseArguments()}
		default:
			return x
		}
		p.boundChain(n, x)
	}
	return x
}

// parseSubscript reads [key] or [start:stop:step].
func (p *parser) parseSubscript(x expr) expr {
	var parts [3]expr
	n := 0
	for !p.nextIs(operatorToken, "]") {
		if p.accept(operatorToken, ":") {
			n++
			if n == 3 {
				fail("line %d: slice has more than 3 parts", p.peek().line)
			}
			continue
		}
		if parts[n] != nil {
			fail("line %d: found %.40q, want ]", p.peek().line, p.peek().text)
		}
		parts[n] = p.parseExpression(true)
	}
	p.next()
	if n == 0 {
		if parts[0] == nil {
			fail("line %d: [] without a key", p.peek().line)
		}
		return elementExpr(x, parts[0])
	}
	return exprFunc(func(r *run, s *scope) any {
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

// elementExpr is the expression x[key].
func elementExpr(x, key expr) expr {
	return exprFunc(func(r *run, s *scope) any { return r.item(r.eval(x, s), r.eval(key, s)) })
}

// parseArguments reads the arguments of a call up to its closing bracket.
func (p *parser) parseArguments() (a arguments) {
	p.parseListed(")", func() {
		switch {
		case p.peek().kind == nameToken && p.tokens[1].kind == operatorToken && p.tokens[1].text == "=":
			a.names = append(a.names, p.next().text)
			p.next()
			a.named = append(a.named, p.parseExpression(true))
		case len(a.named) > 0:
			fail("line %d: argument without a name after one with", p.peek().line)
		default:
			a.positional = append(a.positional, p.parseExpression(true))
		}
	})
	return a
}

// parseFilters reads filters, tests and calls after a value.
func (p *parser) parseFilters(x expr) expr {
	for n := 0; ; n++ {
		p.boundChain(n, x)
		switch {
		case p.accept(operatorToken, "|"):
			x = p.parseFilter(x)
		case p.accept(nameToken, "is"):
			x = p.parseTest(x)
		case p.accept(operatorToken, "("):
			x = callExpr{x, p.parseArguments()}
		default:
			return x
		}
	}
}

// parseFilter reads the name and the arguments of a filter. The filter is looked up when it is
// reached: many templates have some for cases that do not occur.
func (p *parser) parseFilter(x expr) expr {
	name := p.expectDottedName()
	args := arguments{}
	if p.accept(operatorToken, "(") {
		args = p.parseArguments()
	}
	return exprFunc(func(r *run, s *scope) any {
		v := r.eval(x, s)
		list, named := args.evaluate(r, s)
		return findFilter(name)(r, v, list, named)
	})
}

// expectDottedName reads a name such as that of a test or filter of an extension.
func (p *parser) expectDottedName() string {
	s := p.expectName()
	for p.accept(operatorToken, ".") {
		s += "." + p.expectName()
	}
	return s
}

// parseTest reads a test after is: maybe not, its name, and arguments in brackets or one without.
func (p *parser) parseTest(x expr) expr {
	negated := p.accept(nameToken, "not")
	test := p.expectDottedName()
	args := arguments{}
	next := p.peek()
	switch {
	case p.accept(operatorToken, "("):
		args = p.parseArguments()
	case next.kind == stringToken, next.kind == integerToken, next.kind == floatToken,
		p.nextIs(operatorToken, "["), p.nextIs(operatorToken, "{"),
		next.kind == nameToken && !slices.Contains([]string{"else", "or", "and"}, next.text):
		if p.nextIs(nameToken, "is") {
			fail("line %d: tests in a row, want one", next.line)
		}
		args.positional = []expr{p.parsePostfix(p.parsePrimary())}
	}
	return exprFunc(func(r *run, s *scope) any {
		v := r.eval(x, s)
		list, named := args.evaluate(r, s)
		if len(named.keys) > 0 {
			fail("test %q takes no named arguments", test)
		}
		return findTest(test)(r, v, list) != negated
	})
}
