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
			list = append(list, func(_ *run, _ *scope, out *builder) string {
				out.put(t.text, false)
				return ""
			})
		case t.text == "}}":
			x := p.tuple(true)
			p.want(finish, "}}")
			list = append(list, func(r *run, s *scope, out *builder) string {
				out.add(r.str(r.eval(x, s)))
				return ""
			})
		default:
			word := p.wantName()
			if slices.Contains(ends, word) {
				return list, word
			}
			list = append(list, p.statement(word, t.line))
		}
	}
}

func (p *parser) statement(word string, line int) stmt {
	if read := map[string]func() stmt{"if": p.branch, "for": p.loop, "set": p.set, "macro": p.macro,
		"call": p.call, "filter": p.filtered, "generation": p.generation}[word]; read != nil {
		return read()
	}
	switch word {
	case "raw":
		fail("line %d: statement raw is not done here", line)
	case "include", "import", "from", "extends", "print", "block", "autoescape", "with":
		for p.peek().kind != finish && p.peek().kind != eof {
			p.next()
		}
		p.want(finish, "%}")
		if word == "block" || word == "autoescape" || word == "with" {
			p.body("end" + word)
			p.skip(name, p.peek().text)
			p.want(finish, "%}")
		}
		return func(*run, *scope, *builder) string {
			fail("statement %s is not done here", word)
			return ""
		}
	case "break", "continue":
		if p.loops == 0 {
			fail("line %d: %s is outside a loop", line, word)
		}
		p.want(finish, "%}")
		return func(*run, *scope, *builder) string { return word }
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

// function is inside for the body of a function, which jumps of a loop around it do not leave.
func (p *parser) function(end string) []stmt {
	defer func(loops int) { p.loops = loops }(p.loops)
	p.loops = 0
	return p.inside(end)
}

// generation marks what a model is trained to write: a function that is called at once.
func (p *parser) generation() stmt {
	body := p.function("endgeneration")
	return func(r *run, s *scope, out *builder) string { return r.exec(body, s.inner(), out) }
}

// bodyName is the variable of a filter block's body, which no template can name.
const bodyName = "the body"

func (p *parser) filtered() stmt {
	x := p.filters(p.filter(variable(bodyName)))
	body := p.inside("endfilter")
	return func(r *run, s *scope, out *builder) string {
		inner := s.inner()
		written, jump := r.written(body, s)
		inner.names[bodyName] = written
		if jump == "" {
			out.add(r.str(r.eval(x, inner)))
		}
		return jump
	}
}

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
	m.body = p.function("endcall")
	return func(r *run, s *scope, out *builder) string {
		out.add(r.str(x.do(r, s, r.macro(m, s))))
		return ""
	}
}

func (p *parser) branch() stmt {
	var tests []expr
	var bodies [][]stmt // one more than tests if there is an else
	for word := "if"; word != "endif"; {
		if word != "else" {
			tests = append(tests, p.tuple(false))
		}
		p.want(finish, "%}")
		ends := []string{"elif", "else", "endif"}
		if word == "else" {
			ends = ends[2:]
		}
		var body []stmt
		body, word = p.body(ends...)
		bodies = append(bodies, body)
	}
	p.want(finish, "%}")
	return func(r *run, s *scope, out *builder) string {
		for i, body := range bodies {
			if i == len(tests) || truth(r.eval(tests[i], s)) {
				return r.exec(body, s, out)
			}
		}
		return ""
	}
}

func (p *parser) loop() stmt {
	to := p.targets()
	p.want(name, "in")
	over := p.tuple(false)
	var test expr
	if p.skip(name, "if") {
		test = p.expression(true)
	}
	recursive := p.skip(name, "recursive")
	p.want(finish, "%}")
	p.loops++
	body, word := p.body("else", "endfor")
	p.loops--
	var none []stmt
	if word == "else" {
		p.want(finish, "%}")
		none, _ = p.body("endfor")
	}
	p.want(finish, "%}")
	return func(r *run, s *scope, out *builder) string {
		if recursive {
			fail("a recursive loop is not done here")
		}
		items := r.items(r.eval(over, s))
		if test != nil {
			items = r.kept(items, to, test, s)
		}
		if len(items) == 0 {
			return r.exec(none, s.inner(), out)
		}
		for i, item := range items {
			r.step(1)
			inner := s.inner()
			inner.names["loop"] = &turn{items, i}
			r.assign(to, item, inner)
			if r.exec(body, inner, out) == "break" {
				break
			}
		}
		return ""
	}
}

// target is the name that a loop or set assigns, or several for the items of a sequence.
type target struct {
	names    []string
	sequence bool
}

// targets reads the names that a loop or set assigns.
func (p *parser) targets() target {
	if p.skip(operator, "(") {
		t := p.targets()
		p.want(operator, ")")
		return t
	}
	t := target{names: []string{p.wantName()}}
	for p.skip(operator, ",") {
		t.sequence = true
		if p.peek().kind != name || p.is(name, "in") {
			break
		}
		t.names = append(t.names, p.wantName())
	}
	return t
}

func (p *parser) set() stmt {
	to, field := p.targets(), ""
	if !to.sequence && p.skip(operator, ".") {
		field = p.wantName()
	}
	var x expr
	var body []stmt // whose text is the value, if x is nil
	if p.skip(operator, "=") {
		x = p.tuple(true)
		p.want(finish, "%}")
	} else if p.is(operator, "|") {
		fail("line %d: set with filters is not done here", p.peek().line)
	} else {
		body = p.inside("endset")
	}
	return func(r *run, s *scope, _ *builder) (jump string) {
		var value any
		if x != nil {
			value = r.eval(x, s)
		} else if value, jump = r.written(body, s); jump != "" {
			return jump
		}
		if field == "" {
			r.assign(to, value, s)
			return ""
		}
		ns, ok := s.get(to.names[0]).(*namespace)
		if !ok {
			fail("cannot assign attribute on non-namespace object")
		}
		ns.fields.set(text{s: field}, value)
		return ""
	}
}

func (p *parser) macro() stmt {
	m := define{name: p.wantName()}
	p.signature(&m)
	tokens := p.tokens
	m.body = p.function("endmacro")
	for _, t := range tokens[:len(tokens)-len(p.tokens)] {
		m.varargs = m.varargs || t.kind == name && t.text == "varargs"
		m.kwargs = m.kwargs || t.kind == name && t.text == "kwargs"
		m.caller = m.caller || t.kind == name && t.text == "caller"
	}
	return func(r *run, s *scope, _ *builder) string {
		s.names[m.name] = r.macro(m, s)
		return ""
	}
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
