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

// parser turns tokens into statements. Its methods fail with a panic, which Parse recovers.
type parser struct {
	tokens []token // without those that were read

	// depth is the nesting of what is being read, and loops how many loops are around it.
	depth int
	loops int
}

func (p *parser) peek() token { return p.tokens[0] }

// next returns the next token and passes over it. The last one stays, so that there always is a
// next.
func (p *parser) next() token {
	t := p.tokens[0]
	if t.kind != endToken {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) nextIs(k tokenKind, text string) bool {
	return p.peek().kind == k && p.peek().text == text
}

// accept reads the next token if it has a kind and a text.
func (p *parser) accept(k tokenKind, text string) bool {
	if p.nextIs(k, text) {
		p.next()
		return true
	}
	return false
}

// expect reads a token that must have a kind and a text.
func (p *parser) expect(k tokenKind, text string) {
	if t := p.next(); t.kind != k || t.text != text {
		fail("line %d: found %.40q, want %q", t.line, t.text, text)
	}
}

// expectName passes over a name and returns it.
func (p *parser) expectName() string {
	t := p.next()
	if t.kind != nameToken {
		fail("line %d: found %.40q, want a name", t.line, t.text)
	}
	return t.text
}

// nest adds one level of nesting until the function that it returns is called.
func (p *parser) nest() func() {
	p.depth++
	if p.depth > maxDepth {
		fail("line %d: nested deeper than %d", p.peek().line, maxDepth)
	}
	return func() { p.depth-- }
}

// parseBody reads statements up to a tag named in ends and returns that name. What follows in the
// tag is left. Without ends it reads up to the end of the template.
func (p *parser) parseBody(ends ...string) ([]stmt, string) {
	defer p.nest()()
	var list []stmt
	for {
		t := p.next()
		switch {
		case t.kind == endToken:
			if len(ends) > 0 {
				fail("line %d: template ends, want %s", t.line, strings.Join(ends, " or "))
			}
			return list, ""
		case t.kind == textToken:
			list = append(list, func(_ *run, _ *scope, out *builder) string {
				out.addString(t.text, false)
				return ""
			})
		case t.text == "}}":
			x := p.parseTuple(true)
			p.expect(closeToken, "}}")
			list = append(list, func(r *run, s *scope, out *builder) string {
				out.add(r.pythonStr(r.eval(x, s)))
				return ""
			})
		default:
			word := p.expectName()
			if slices.Contains(ends, word) {
				return list, word
			}
			list = append(list, p.parseStatement(word, t.line))
		}
	}
}

// parseStatement reads the statement that begins with a word. A statement that is not supported
// fails once it is reached, because many templates have some for cases that do not occur.
func (p *parser) parseStatement(word string, line int) stmt {
	switch word {
	case "if":
		return p.parseIf()
	case "for":
		return p.parseFor()
	case "set":
		return p.parseSet()
	case "macro":
		return p.parseMacro()
	case "call":
		return p.parseCallBlock()
	case "filter":
		return p.parseFilterBlock()
	case "generation":
		return p.parseGeneration()
	case "raw":
		fail("line %d: statement raw is not supported", line)
	case "include", "import", "from", "extends", "print", "block", "autoescape", "with":
		for p.peek().kind != closeToken && p.peek().kind != endToken {
			p.next()
		}
		p.expect(closeToken, "%}")
		if word == "block" || word == "autoescape" || word == "with" {
			p.parseBody("end" + word)
			p.accept(nameToken, p.peek().text)
			p.expect(closeToken, "%}")
		}
		return func(*run, *scope, *builder) string {
			fail("statement %s is not supported", word)
			return ""
		}
	case "break", "continue":
		if p.loops == 0 {
			fail("line %d: %s is outside a loop", line, word)
		}
		p.expect(closeToken, "%}")
		return func(*run, *scope, *builder) string { return word }
	}
	fail("line %d: statement %.40q is not known, want if, for, set, macro, call, filter, "+
		"break or continue", line, word)
	return nil
}

// parseInside reads the end of a tag, statements and the tag that ends them.
func (p *parser) parseInside(end string) []stmt {
	p.expect(closeToken, "%}")
	body, _ := p.parseBody(end)
	p.expect(closeToken, "%}")
	return body
}

// parseFunctionBody is parseInside for the body of a function: break and continue in it do not mean
// a loop around it.
func (p *parser) parseFunctionBody(end string) []stmt {
	defer func(loops int) { p.loops = loops }(p.loops)
	p.loops = 0
	return p.parseInside(end)
}

// parseGeneration reads a generation block, which marks what a model is trained to write: a
// function that is called at once.
func (p *parser) parseGeneration() stmt {
	body := p.parseFunctionBody("endgeneration")
	return func(r *run, s *scope, out *builder) string {
		return r.execute(body, s.nested(), out)
	}
}

// bodyName is the variable of a filter block's body, which no template can name.
const bodyName = "the body"

// parseFilterBlock reads a block whose text goes through filters.
func (p *parser) parseFilterBlock() stmt {
	x := p.parseFilters(p.parseFilter(variableExpr(bodyName)))
	body := p.parseInside("endfilter")
	return func(r *run, s *scope, out *builder) string {
		inner := s.nested()
		written, jump := r.capture(body, s)
		inner.names[bodyName] = written
		if jump == "" {
			out.add(r.pythonStr(r.eval(x, inner)))
		}
		return jump
	}
}

// parseCallBlock reads the call of a macro with a block that the macro may call.
func (p *parser) parseCallBlock() stmt {
	m := macroDefinition{name: "caller"}
	if p.nextIs(operatorToken, "(") {
		p.parseParameters(&m)
	}
	line := p.peek().line
	x, ok := p.parseExpression(true).(callExpr)
	if !ok {
		fail("line %d: call is not followed by a call of a macro", line)
	}
	m.body = p.parseFunctionBody("endcall")
	return func(r *run, s *scope, out *builder) string {
		out.add(r.pythonStr(x.evaluateWith(r, s, r.newMacro(m, s))))
		return ""
	}
}

// parseIf reads a branch with its elif and else.
func (p *parser) parseIf() stmt {
	var tests []expr
	var bodies [][]stmt // one more than tests if there is an else
	for word := "if"; word != "endif"; {
		if word != "else" {
			tests = append(tests, p.parseTuple(false))
		}
		p.expect(closeToken, "%}")
		ends := []string{"elif", "else", "endif"}
		if word == "else" {
			ends = ends[2:]
		}
		var body []stmt
		body, word = p.parseBody(ends...)
		bodies = append(bodies, body)
	}
	p.expect(closeToken, "%}")
	return func(r *run, s *scope, out *builder) string {
		for i, body := range bodies {
			if i == len(tests) || isTrue(r.eval(tests[i], s)) {
				return r.execute(body, s, out)
			}
		}
		return ""
	}
}

// parseFor reads a loop with its test and its else, which runs if there are no items.
func (p *parser) parseFor() stmt {
	targets := p.parseTargets()
	p.expect(nameToken, "in")
	sequence := p.parseTuple(false)
	var test expr
	if p.accept(nameToken, "if") {
		test = p.parseExpression(true)
	}
	recursive := p.accept(nameToken, "recursive")
	p.expect(closeToken, "%}")
	p.loops++
	body, word := p.parseBody("else", "endfor")
	p.loops--
	var otherwise []stmt
	if word == "else" {
		p.expect(closeToken, "%}")
		otherwise, _ = p.parseBody("endfor")
	}
	p.expect(closeToken, "%}")
	return func(r *run, s *scope, out *builder) string {
		if recursive {
			fail("recursive loops are not supported")
		}
		items := r.iterate(r.eval(sequence, s))
		if test != nil {
			items = r.filterItems(items, targets, test, s)
		}
		if len(items) == 0 {
			return r.execute(otherwise, s.nested(), out)
		}
		for i, item := range items {
			r.countSteps(1)
			inner := s.nested()
			inner.names["loop"] = &iteration{items, i}
			r.assign(targets, item, inner)
			if r.execute(body, inner, out) == "break" {
				break
			}
		}
		return ""
	}
}

// target is the name that a loop or set assigns, or several for the items of a sequence.
type target struct {
	names      []string
	isSequence bool
}

// parseTargets reads the names that a loop or set assigns.
func (p *parser) parseTargets() target {
	if p.accept(operatorToken, "(") {
		t := p.parseTargets()
		p.expect(operatorToken, ")")
		return t
	}
	t := target{names: []string{p.expectName()}}
	for p.accept(operatorToken, ",") {
		t.isSequence = true
		if p.peek().kind != nameToken || p.nextIs(nameToken, "in") {
			break
		}
		t.names = append(t.names, p.expectName())
	}
	return t
}

// parseSet reads an assignment of a value, or of the text of a block.
func (p *parser) parseSet() stmt {
	targets := p.parseTargets()
	field := "" // of a namespace
	if !targets.isSequence && p.accept(operatorToken, ".") {
		field = p.expectName()
	}
	var x expr
	var body []stmt // whose text is the value, if x is nil
	if p.accept(operatorToken, "=") {
		x = p.parseTuple(true)
		p.expect(closeToken, "%}")
	} else if p.nextIs(operatorToken, "|") {
		fail("line %d: set with filters is not supported", p.peek().line)
	} else {
		body = p.parseInside("endset")
	}
	return func(r *run, s *scope, _ *builder) (jump string) {
		var value any
		if x != nil {
			value = r.eval(x, s)
		} else {
			value, jump = r.capture(body, s)
			if jump != "" {
				return jump
			}
		}
		if field == "" {
			r.assign(targets, value, s)
			return ""
		}
		ns, ok := s.lookup(targets.names[0]).(*namespace)
		if !ok {
			fail("cannot assign attribute on non-namespace object")
		}
		ns.fields.set(text{s: field}, value)
		return ""
	}
}

// parseMacro reads the definition of a macro.
func (p *parser) parseMacro() stmt {
	m := macroDefinition{name: p.expectName()}
	p.parseParameters(&m)
	fromBody := p.tokens
	m.body = p.parseFunctionBody("endmacro")
	for _, t := range fromBody[:len(fromBody)-len(p.tokens)] { // the body's
		m.readsVarargs = m.readsVarargs || t.kind == nameToken && t.text == "varargs"
		m.readsKwargs = m.readsKwargs || t.kind == nameToken && t.text == "kwargs"
		m.readsCaller = m.readsCaller || t.kind == nameToken && t.text == "caller"
	}
	return func(r *run, s *scope, _ *builder) string {
		s.names[m.name] = r.newMacro(m, s)
		return ""
	}
}

// parseParameters reads the parameters of a macro in parentheses.
func (p *parser) parseParameters(m *macroDefinition) {
	p.expect(operatorToken, "(")
	for !p.accept(operatorToken, ")") {
		if len(m.params) > 0 {
			p.expect(operatorToken, ",")
		}
		m.params = append(m.params, p.expectName())
		if p.accept(operatorToken, "=") {
			m.defaults = append(m.defaults, p.parseExpression(true))
		} else if len(m.defaults) > 0 {
			fail("line %d: macro %s has a parameter without default after one with", p.peek().line,
				m.name)
		}
	}
}
