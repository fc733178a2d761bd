package chat

import (
	"math"
	"math/big"
)

// eval returns the value of x.
func (r *run) eval(x expr, s *scope) any {
	r.enter()
	defer r.leave()
	switch x := x.(type) {
	case constant:
		return x.value
	case variable:
		return s.get(x.name)
	case listing:
		return r.newList(r.evalAll(x.items, s))
	case tupling:
		l := r.newList(r.evalAll(x.items, s))
		l.tuple = true
		return l
	case mapping:
		return r.mapped(x, s)
	case unary:
		return r.unary(x.op, r.eval(x.x, s))
	case binary:
		switch x.op {
		case "and", "or":
			a := r.eval(x.a, s)
			if truth(a) == (x.op == "or") {
				return a
			}
			return r.eval(x.b, s)
		}
		return r.binary(x.op, r.eval(x.a, s), r.eval(x.b, s))
	case comparison:
		return r.compared(x, s)
	case choice:
		switch {
		case truth(r.eval(x.test, s)):
			return r.eval(x.yes, s)
		case x.no == nil:
			return undefined{"the inline if-expression without else"}
		}
		return r.eval(x.no, s)
	case getAttr:
		return r.attribute(r.eval(x.x, s), text{s: x.name})
	case getItem:
		return r.item(r.eval(x.x, s), r.eval(x.key, s))
	case slicing:
		return r.sliced(x, s)
	case calling:
		f := r.eval(x.f, s)
		args, named := r.arguments(x.args, s)
		return r.call(f, args, named)
	case filtering:
		v := r.eval(x.x, s)
		args, named := r.arguments(x.args, s)
		return filterNamed(x.name)(r, v, args, named)
	case asking:
		return r.asked(x, s)
	}
	panic("chat: unknown expression")
}

func (r *run) mapped(x mapping, s *scope) *dict {
	d := newDict()
	for i := range x.keys {
		d.set(r.key(r.eval(x.keys[i], s)), r.eval(x.values[i], s))
	}
	r.made(32 * len(d.keys))
	return d
}

func (r *run) compared(x comparison, s *scope) bool {
	a := r.eval(x.first, s)
	for i, op := range x.ops {
		b := r.eval(x.rest[i], s)
		if !r.compare(op, a, b) {
			return false
		}
		a = b
	}
	return true
}

func (r *run) sliced(x slicing, s *scope) any {
	var parts [3]any
	v := r.eval(x.x, s)
	for i, p := range []expr{x.start, x.stop, x.step} {
		if p != nil {
			parts[i] = r.eval(p, s)
		}
	}
	return r.slice(v, parts)
}

func (r *run) asked(x asking, s *scope) bool {
	v := r.eval(x.x, s)
	args, named := r.arguments(x.args, s)
	if len(named.keys) > 0 {
		fail("test %q takes no named arguments", x.name)
	}
	return testNamed(x.name)(r, v, args) != x.not
}

func (r *run) evalAll(list []expr, s *scope) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = r.eval(x, s)
	}
	return out
}

func (r *run) arguments(a arguments, s *scope) ([]any, *dict) {
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
			l := &list{tuple: left.tuple}
			if len(left.items) > 0 {
				for range y {
					l.items = append(l.items, left.items...)
				}
			}
			return l
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
