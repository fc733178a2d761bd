package chat

import (
	"math"
	"math/big"
	"slices"
)

// expr is an expression of a template, which the parser makes; run.eval computes its value.
type expr interface{ value(r *run, s *scope) any }

// compute is an expression given by its function.
type compute func(r *run, s *scope) any

func (c compute) value(r *run, s *scope) any { return c(r, s) }

// stmt runs a statement of a template, which writes to out, and returns the jump that ended it,
// break or continue, "" if none did.
type stmt func(r *run, s *scope, out *builder) (jump string)

// calling is the call of a function, which call blocks hand their body to.
type calling struct {
	f    expr
	args arguments
}

func (c calling) value(r *run, s *scope) any { return c.do(r, s, nil) }

// do makes the call, with the function caller as an argument if there is one.
func (c calling) do(r *run, s *scope, caller *function) any {
	f := r.eval(c.f, s)
	args, named := c.args.values(r, s)
	if caller != nil {
		named.set(text{s: "caller"}, caller)
	}
	return r.call(f, args, named)
}

// arguments are the arguments of a call.
type arguments struct {
	list  []expr
	names []string // of named
	named []expr
}

func (a arguments) values(r *run, s *scope) ([]any, *dict) {
	named := newDict()
	args := r.evalAll(a.list, s)
	for i, name := range a.names {
		if _, ok := named.at[name]; ok {
			fail("keyword argument %q is given twice", name)
		}
		named.set(text{s: name}, r.eval(a.named[i], s))
	}
	return args, named
}

// define is the definition of a macro, or of the body of a call block.
type define struct {
	name     string
	params   []string
	defaults []expr // for the last parameters
	varargs  bool   // the body reads further arguments
	kwargs   bool   // and further named ones
	caller   bool   // and the body of a call block
	body     []stmt
}

// eval returns the value of x.
func (r *run) eval(x expr, s *scope) any {
	r.enter()
	defer r.leave()
	return x.value(r, s)
}

func (r *run) evalAll(list []expr, s *scope) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = r.eval(x, s)
	}
	return out
}

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

func (u undefined) fail() { fail("%s is undefined", u.what) }

// defined fails for a value that is undefined.
func defined(values ...any) {
	for _, v := range values {
		if u, ok := v.(undefined); ok {
			u.fail()
		}
	}
}

func (r *run) unary(op string, v any) any {
	if op == "not" {
		return !truth(v)
	}
	n, f, whole, ok := number(v)
	defined(v)
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

// binary returns Python's a op b, and ~, which joins texts.
func (r *run) binary(op string, a, b any) any {
	if op == "~" {
		return r.join(text{}, []text{r.str(a), r.str(b)})
	}
	defined(a, b)
	x, fx, wx, ok := number(a)
	y, fy, wy, ok2 := number(b)
	if ok && ok2 {
		if wx && wy {
			return wholes(op, x, y)
		}
		return reals(op, fx, fy)
	}
	switch left := a.(type) {
	case text:
		if right, is := b.(text); is && op == "+" {
			if left.safe || right.safe {
				sum := r.join(text{}, []text{r.markup(left), r.markup(right)})
				sum.safe = true
				return sum
			}
			return r.join(text{}, []text{left, right})
		}
		if op == "*" && ok2 && wy {
			return r.repeat(left, y)
		}
		if op == "%" {
			fail("formatting by %% is not done here")
		}
		if op == "+" {
			fail("can only concatenate str (not %q) to str", typeName(b))
		}
	case *list:
		if right, is := b.(*list); is && op == "+" && left.tuple == right.tuple && !left.once &&
			!right.once {
			l := r.newList(append(append([]any{}, left.items...), right.items...))
			l.tuple = left.tuple
			return l
		}
		if op == "*" && ok2 && wy && !left.once {
			r.made(16 * bounded(int64(len(left.items)), y))
			n := int(min(max(y, 0), maxMade))
			return &list{items: slices.Repeat(left.items, n), tuple: left.tuple}
		}
	}
	if _, is := b.(text); is && op == "*" && ok && wx {
		return r.binary(op, b, a)
	}
	if _, is := b.(*list); is && op == "*" && ok && wx {
		return r.binary(op, b, a)
	}
	fail("unsupported operand type(s) for %s: %q and %q", op, typeName(a), typeName(b))
	return nil
}

// bounded returns a times b, clipped to 0 and to just above the limit.
func bounded(a, b int64) int {
	if a <= 0 || b <= 0 {
		return 0
	}
	if a > maxMade/b {
		return maxMade + 1
	}
	return int(a * b)
}

func (r *run) repeat(t text, n int64) text {
	r.made(bounded(int64(len(t.s)), n))
	b := builder{run: r}
	if t.s != "" {
		for range n {
			b.add(t)
		}
	}
	return b.text()
}

func wholes(op string, a, b int64) any {
	x, y, z := big.NewInt(a), big.NewInt(b), new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		z.Mul(x, y)
	case "/", "//", "%":
		if b == 0 {
			fail("division by zero")
		}
		if op == "/" {
			return float64(a) / float64(b)
		}
		rest := new(big.Int)
		z.QuoRem(x, y, rest)
		if rest.Sign() != 0 && rest.Sign() != y.Sign() { // Python rounds down
			z.Sub(z, big.NewInt(1))
			rest.Add(rest, y)
		}
		if op == "%" {
			z = rest
		}
	case "**":
		if b < 0 {
			return reals(op, float64(a), float64(b))
		}
		if b > 63 && (a > 1 || a < -1) {
			fail("%d ** %d is too large", a, b)
		}
		z.Exp(x, y, nil)
	}
	if !z.IsInt64() {
		fail("%d %s %d is too large", a, op, b)
	}
	return z.Int64()
}

func reals(op string, a, b float64) any {
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
	fail("%s of numbers that are not whole is not done here", op)
	return nil
}

func (r *run) compare(op string, a, b any) bool {
	switch op {
	case "==":
		return r.equal(a, b)
	case "!=":
		return !r.equal(a, b)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	}
	defined(a, b)
	switch op {
	case "<":
		return r.less(a, b)
	case ">":
		return r.less(b, a)
	case "<=":
		return r.less(a, b) || r.equal(a, b)
	}
	return r.less(b, a) || r.equal(a, b)
}
