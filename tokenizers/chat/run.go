package chat

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// run is one rendering, with its use of the limits.
type run struct {
	steps, bytes, depth int
	now                 func() time.Time
}

// step counts n steps.
func (r *run) step(n int) {
	if r.steps += n; r.steps > maxSteps || n < 0 {
		fail("takes more than %d steps", maxSteps)
	}
}

// touch counts the work of reading n bytes.
func (r *run) touch(n int) { r.step(1 + n/64) }

// made counts n bytes that were made, and the work for them.
func (r *run) made(n int) {
	if n < 0 || n > maxMade || r.bytes+n > maxMade {
		fail("makes more than %d bytes", maxMade)
	}
	r.bytes += n
	r.step(n / 64)
}

// deeper adds one level of nesting until the function that it returns is called.
func (r *run) deeper() func() {
	r.enter()
	return r.leave
}

func (r *run) enter() {
	if r.depth++; r.depth > 60*maxDepth {
		fail("nested deeper than %d", 60*maxDepth)
	}
	r.step(1)
}

func (r *run) leave() { r.depth-- }

// scope holds the names of a template, a macro or an iteration of a loop.
type scope struct {
	names map[string]any
	outer *scope
}

func (s *scope) inner() *scope { return &scope{map[string]any{}, s} }

func (s *scope) get(name string) any {
	for at := s; at != nil; at = at.outer {
		if v, ok := at.names[name]; ok {
			return v
		}
	}
	return undefined{"'" + name + "'"}
}

// exec runs statements and returns the jump that ended them, "" if none did.
func (r *run) exec(list []stmt, s *scope, out *builder) string {
	for _, one := range list {
		r.enter()
		jump := one(r, s, out)
		r.leave()
		if jump != "" {
			return jump
		}
	}
	return ""
}

// written returns what statements write in a scope of their own, and the jump that ended them.
func (r *run) written(list []stmt, s *scope) (t text, jump string) {
	b := builder{run: r}
	jump = r.exec(list, s.inner(), &b)
	return b.text(), jump
}

func (r *run) assign(to target, value any, s *scope) {
	if !to.sequence {
		s.names[to.names[0]] = value
		return
	}
	items := r.items(value)
	if len(items) != len(to.names) {
		fail("found %d values to unpack, want %d", len(items), len(to.names))
	}
	for i, name := range to.names {
		s.names[name] = items[i]
	}
}

// kept returns the items of a loop for which its test is true.
func (r *run) kept(items []any, to target, test expr, s *scope) (kept []any) {
	for _, item := range items {
		inner := s.inner()
		r.assign(to, item, inner)
		if truth(r.eval(test, inner)) {
			kept = append(kept, item)
		}
	}
	return kept
}

// turn is the variable loop in the iteration of items[i].
type turn struct {
	items []any
	i     int
}

func (t *turn) field(name string) any {
	n := len(t.items)
	switch name {
	case "index":
		return int64(t.i) + 1
	case "index0":
		return int64(t.i)
	case "revindex":
		return int64(n - t.i)
	case "revindex0":
		return int64(n - t.i - 1)
	case "first":
		return t.i == 0
	case "last":
		return t.i == n-1
	case "length":
		return int64(n)
	case "previtem":
		if t.i > 0 {
			return t.items[t.i-1]
		}
	case "nextitem":
		if t.i < n-1 {
			return t.items[t.i+1]
		}
	case "cycle":
		return &function{name, func(r *run, args []any, named *dict) any {
			if len(args) == 0 {
				fail("loop.cycle without values")
			}
			return args[t.i%len(args)]
		}}
	case "changed":
		fail("loop.changed is not done here")
	case "depth": // loops that are not recursive
		return int64(1)
	case "depth0":
		return int64(0)
	}
	return undefined{"'loop object' has no attribute '" + name + "', so it"}
}

// macro returns the function that runs m in the scope of its definition.
func (r *run) macro(m define, s *scope) *function {
	return &function{m.name, func(r *run, args []any, named *dict) any {
		if len(args) > len(m.params) && !m.varargs {
			fail("macro %q takes not more than %d argument(s)", m.name, len(m.params))
		}
		inner := s.inner()
		for i, param := range m.params {
			fromEnd := len(m.params) - i
			v, given := named.get(text{s: param})
			switch {
			case i < len(args) && given:
				fail("macro %q got two values for %q", m.name, param)
			case i < len(args):
				v = args[i]
			case given:
			case fromEnd <= len(m.defaults):
				v = r.eval(m.defaults[len(m.defaults)-fromEnd], inner)
			default:
				v = undefined{"parameter '" + param + "'"}
			}
			inner.names[param] = v
		}
		if m.varargs {
			extra := r.newList(args[min(len(args), len(m.params)):])
			extra.tuple = true
			inner.names["varargs"] = extra
		}
		more := newDict()
		if m.caller && !slices.Contains(m.params, "caller") {
			inner.names["caller"] = undefined{"the caller of macro '" + m.name + "'"}
		}
		for i, k := range named.keys {
			if m.caller && k.(text).s == "caller" {
				inner.names["caller"] = named.values[i]
				continue
			}
			if slices.Contains(m.params, k.(text).s) {
				continue
			}
			if more.set(k, named.values[i]); !m.kwargs {
				fail("macro %q takes no keyword argument %q", m.name, k.(text).s)
			}
		}
		if m.kwargs {
			inner.names["kwargs"] = more
		}
		b := builder{run: r}
		r.exec(m.body, inner, &b)
		return b.text()
	}}
}

// globals returns the functions that every template has.
func globals() map[string]any {
	all := map[string]any{}
	for name, call := range map[string]func(r *run, args []any, named *dict) any{
		"range":     callRange,
		"namespace": func(r *run, args []any, named *dict) any { return &namespace{r.dict(args, named)} },
		"dict":      func(r *run, args []any, named *dict) any { return r.dict(args, named) },
		"raise_exception": func(r *run, args []any, _ *dict) any {
			want(args, 1, 1, "raise_exception")
			fail("%s", r.str(args[0]).s)
			return nil
		},
		"strftime_now": func(r *run, args []any, _ *dict) any {
			want(args, 1, 1, "strftime_now")
			return r.strftime(wantText(args, 0, "strftime_now"))
		},
	} {
		all[name] = &function{name, call}
	}
	for _, name := range []string{"cycler", "joiner", "lipsum"} {
		all[name] = &function{name, func(*run, []any, *dict) any {
			fail("function %s is not done here", name)
			return nil
		}}
	}
	return all
}

// dict returns the result of dict(...): from another dict or pairs, and from names.
func (r *run) dict(args []any, named *dict) *dict {
	d := newDict()
	want(args, 0, 1, "dict")
	for _, a := range args {
		if from, ok := a.(*dict); ok {
			a = r.pairs(from)
		}
		for _, item := range r.items(a) {
			pair := r.items(item)
			if len(pair) != 2 {
				fail("dictionary update sequence element has length %d; 2 is required", len(pair))
			}
			d.set(pair[0], pair[1])
		}
	}
	for i, k := range named.keys {
		d.set(k, named.values[i])
	}
	r.made(32 * len(d.keys))
	return d
}

func callRange(r *run, args []any, named *dict) any {
	if len(args) < 1 || len(args) > 3 || len(named.keys) > 0 {
		fail("range takes 1 to 3 numbers")
	}
	v := [3]int64{0, 0, 1}
	for i, a := range args {
		n, _, whole, ok := number(a)
		if !ok || !whole {
			fail("%q object cannot be interpreted as an integer", typeName(a))
		}
		if len(args) == 1 {
			v[1] = n
		} else {
			v[i] = n
		}
	}
	start, stop, step := v[0], v[1], v[2]
	if step == 0 {
		fail("range() arg 3 must not be zero")
	}
	span := math.Ceil((float64(stop) - float64(start)) / float64(step))
	if span > maxRange {
		fail("range has %.0f numbers, want at most %d", span, maxRange)
	}
	var items []any
	for i := 0; i < int(span); i++ {
		items = append(items, start+int64(i)*step)
	}
	shown := fmt.Sprintf("range(%d, %d", start, stop)
	if step != 1 {
		shown += fmt.Sprintf(", %d", step)
	}
	return viewed(r.newList(items), shown+")")
}

// strftime formats the time of the call as C does, for the letters that templates use. What a
// format of the conversation gives is the conversation's.
func (r *run) strftime(format text) text {
	layouts := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'm': "01", 'y': "06",
		'Y': "2006", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'j': "002",
		'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04", 'e': "_2",
		'Z': "", 'z': "", // the time has no zone, as that of transformers
	}
	now, b := r.now(), builder{run: r}
	for i := 0; i < len(format.s); i++ {
		from := i
		if n := strings.IndexByte(format.s[i:], '%'); n != 0 || i+1 == len(format.s) {
			if n <= 0 {
				n = len(format.s) - i
			}
			b.add(format.slice(i, i+n))
			i += n - 1
			continue
		}
		i++
		bare := format.s[i] == '-' && i+1 < len(format.s) // as in glibc: no leading zero
		if bare {
			i++
		}
		shown := "%"
		if c := format.s[i]; c != '%' {
			layout, ok := layouts[c]
			if !ok {
				fail("strftime_now: %%%c is not known here", c)
			}
			if shown = now.Format(layout); bare && shown != "" {
				last := len(shown) - 1
				shown = strings.TrimLeft(shown[:last], "0 ") + shown[last:]
			}
		}
		b.put(shown, len(format.slice(from, i+1).user) > 0)
	}
	return b.text()
}
