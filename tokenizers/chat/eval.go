package chat

import (
	"math"
	"math/big"
	"slices"
)

// expr is an expression of a template, which the parser makes; run.eval computes its value.
type expr interface{ evaluate(r *run, s *scope) any }

// exprFunc is an expression given by its function.
type exprFunc func(r *run, s *scope) any

func (c exprFunc) evaluate(r *run, s *scope) any { return c(r, s) }

// stmt runs a statement of a template, which writes to out, and returns the jump that ended it,
// break or continue, "" if none did.
type stmt func(r *run, s *scope, out *builder) (jump string)

// callExpr is the call of a function. It is a type of its own because call blocks hand their body
// to the function that is called.
type callExpr struct {
	function  expr
	arguments arguments
}

func (c callExpr) evaluate(r *run, s *scope) any { return c.evaluateWith(r, s, nil) }

// evaluateWith makes the call, with the function caller as an argument if there is one.
func (c callExpr) evaluateWith(r *run, s *scope, caller *function) any {
	f := r.eval(c.function, s)
	args, named := c.arguments.evaluate(r, s)
	if caller != nil {
		named.set(text{s: "caller"}, caller)
	}
	return r.call(f, args, named)
}

// arguments are the arguments of a call: those by their places, and the names and values of others.
type arguments struct {
	positional []expr
	names      []string
	named      []expr
}

// evaluate returns the values of arguments, those by place and those by name.
func (a arguments) evaluate(r *run, s *scope) ([]any, *dict) {
	named := newDict()
	args := r.evalAll(a.positional, s)
	for i, name := range a.names {
		if _, ok := named.index[name]; ok {
			fail("keyword argument %q is given twice", name)
		}
		named.set(text{s: name}, r.eval(a.named[i], s))
	}
	return args, named
}

// macroDefinition is the definition of a macro, or of the body of a call block.
type macroDefinition struct {
	name     string
	params   []string
	defaults []expr // of the last parameters
	body     []stmt

	// Whether the body reads the variable varargs, which has arguments beyond the parameters; kwargs,
	// which has those with other names; and caller, which is the body of a call block.
	readsVarargs bool
	readsKwargs  bool
	readsCaller  bool
}

// eval returns the value of x.
func (r *run) eval(x expr, s *scope) any {
	r.enter()
	defer r.leave()
	return x.evaluate(r, s)
}

// evalAll returns the values of expressions, in order.
func (r *run) evalAll(list []expr, s *scope) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = r.eval(x, s)
	}
	return out
}

// call calls a value, which is an error unless it is a function.
func (r *run) call(f any, args []any, named *dict) any {
	switch f := f.(type) {
	case *function:
		return f.call(r, args, named)
	case undefined:
		f.fail()
	}
	fail("%q object is not callable", typeName(f))
	return nil
}

func (u undefined) fail() { fail("%s is undefined", u.description) }

// requireDefined fails for a value that is undefined.
func requireDefined(values ...any) {
	for _, v := range values {
		if u, ok := v.(undefined); ok {
			u.fail()
		}
	}
}

// applyUnary returns Python's op v for +, - and not.
func (r *run) applyUnary(op string, v any) any {
	if op == "not" {
		return !isTrue(v)
	}
	n, f, whole, ok := asNumber(v)
	requireDefined(v)
	switch {
	case !ok:
		fail("bad operand type for unary %s: %q", op, typeName(v))
	case whole && op == "-" && n == math.MinInt64:
		fail("%d is too large to negate", n)
	case whole && op == "-":
		return -n
	case whole:
		return n
	case op == "-":
		return -f
	}
	return f
}

// applyBinary returns Python's a op b, and ~, which joins texts.
func (r *run) applyBinary(op string, a, b any) any {
	if op == "~" {
		return r.join(text{}, []text{r.pythonStr(a), r.pythonStr(b)})
	}
	requireDefined(a, b)
	x, realX, wholeX, okX := asNumber(a)
	y, realY, wholeY, okY := asNumber(b)
	if okX && okY {
		if wholeX && wholeY {
			return wholeArithmetic(op, x, y)
		}
		return floatArithmetic(op, realX, realY)
	}
	if op == "*" && wholeX { // a number of times a sequence
		switch b.(type) {
		case text, *list:
			return r.applyBinary(op, b, a)
		}
	}
	switch left := a.(type) {
	case text:
		switch {
		case op == "+":
			return r.addTexts(left, b)
		case op == "*" && wholeY:
			return r.repeatText(left, y)
		case op == "%":
			fail("formatting by %% is not supported")
		}
	case *list:
		right, isList := b.(*list)
		switch {
		case op == "+" && isList && left.isTuple == right.isTuple && !left.isGenerator &&
			!right.isGenerator:
			sum := r.newList(slices.Concat(left.items, right.items))
			sum.isTuple = left.isTuple
			return sum
		case op == "*" && wholeY && !left.isGenerator:
			r.countMade(16 * boundedProduct(int64(len(left.items)), y))
			n := int(min(max(y, 0), maxMade))
			return &list{items: slices.Repeat(left.items, n), isTuple: left.isTuple}
		}
	}
	fail("unsupported operand type(s) for %s: %q and %q", op, typeName(a), typeName(b))
	return nil
}

// addTexts returns Python's left + right, where a text that is safe for HTML escapes the other.
func (r *run) addTexts(left text, b any) text {
	right, ok := b.(text)
	if !ok {
		fail("can only concatenate str (not %q) to str", typeName(b))
	}
	if left.safe || right.safe {
		sum := r.join(text{}, []text{r.escapeHTML(left), r.escapeHTML(right)})
		sum.safe = true
		return sum
	}
	return r.join(text{}, []text{left, right})
}

// boundedProduct returns a times b, clipped to 0 and to just above the limit.
func boundedProduct(a, b int64) int {
	if a <= 0 || b <= 0 {
		return 0
	}
	if a > maxMade/b {
		return maxMade + 1
	}
	return int(a * b)
}

// repeatText returns Python's t * n. The bytes are counted before they are made, because a short
// template can ask for any number.
func (r *run) repeatText(t text, n int64) text {
	r.countMade(boundedProduct(int64(len(t.s)), n))
	b := builder{run: r}
	if t.s != "" {
		for range n {
			b.add(t)
		}
	}
	return b.text()
}

// wholeArithmetic returns Python's a op b of whole numbers. Results that Python has beyond 64 bits
// are errors.
func wholeArithmetic(op string, a, b int64) any {
	x := big.NewInt(a)
	y := big.NewInt(b)
	result := new(big.Int)
	switch op {
	case "+":
		result.Add(x, y)
	case "-":
		result.Sub(x, y)
	case "*":
		result.Mul(x, y)
	case "/", "//", "%":
		if b == 0 {
			fail("division by zero")
		}
		if op == "/" {
			return float64(a) / float64(b)
		}
		remainder := new(big.Int)
		result.QuoRem(x, y, remainder)
		if remainder.Sign() != 0 && remainder.Sign() != y.Sign() { // Python rounds down
			result.Sub(result, big.NewInt(1))
			remainder.Add(remainder, y)
		}
		if op == "%" {
			result = remainder
		}
	case "**":
		if b < 0 {
			return floatArithmetic(op, float64(a), float64(b))
		}
		if b > 63 && (a > 1 || a < -1) {
			fail("%d ** %d is too large", a, b)
		}
		result.Exp(x, y, nil)
	}
	if !result.IsInt64() {
		fail("%d %s %d is too large", a, op, b)
	}
	return result.Int64()
}

// floatArithmetic returns the result of an operator of which one side is not a whole number.
func floatArithmetic(op string, a, b float64) any {
	if b == 0 && (op == "/" || op == "//" || op == "%") {
		fail("division by zero")
	}
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		return a / b
	}
	fail("%s of numbers that are not whole is not supported", op)
	return nil
}

// compare returns Python's a op b for operators that compare.
func (r *run) compare(op string, a, b any) bool {
	switch op {
	case "==":
		return r.equals(a, b)
	case "!=":
		return !r.equals(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	}
	requireDefined(a, b)
	switch op {
	case "<":
		return r.isLess(a, b)
	case ">":
		return r.isLess(b, a)
	case "<=":
		return r.isLess(a, b) || r.equals(a, b)
	}
	return r.isLess(b, a) || r.equals(a, b)
}
