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
	steps int // so far, at most maxSteps
	bytes int // of the values made so far, at most maxMade
	depth int // of nested values and calls

	// now returns the time for strftime_now.
	now func() time.Time
}

// countSteps counts n steps.
func (r *run) countSteps(n int) {
	r.steps += n
	if r.steps > maxSteps || n < 0 {
		fail("takes more than %d steps", maxSteps)
	}
}

// countRead counts the work of reading n bytes.
func (r *run) countRead(n int) { r.countSteps(1 + n/64) }

// countMade counts n bytes that are made, and the work for them.
func (r *run) countMade(n int) {
	if n < 0 || n > maxMade || r.bytes+n > maxMade {
		fail("makes more than %d bytes", maxMade)
	}
	r.bytes += n
	r.countSteps(n / 64)
}

// nest adds one level of nesting until the function that it returns is called.
func (r *run) nest() func() {
	r.enter()
	return r.leave
}

// enter adds one level of nesting, which leave takes away. A statement in a template takes several
// levels here, so that the limit is a multiple of the parser's.
func (r *run) enter() {
	r.depth++
	if r.depth > 60*maxDepth {
		fail("nested deeper than %d", 60*maxDepth)
	}
	r.countSteps(1)
}

func (r *run) leave() { r.depth-- }

// scope holds the names of a template, a macro or an iteration of a loop.
type scope struct {
	names map[string]any
	outer *scope
}

// nested returns a new scope inside of s.
func (s *scope) nested() *scope { return &scope{map[string]any{}, s} }

// lookup returns the value of a name in the innermost scope that has it.
func (s *scope) lookup(name string) any {
	for ; s != nil; s = s.outer {
		if v, ok := s.names[name]; ok {
			return v
		}
	}
	return undefined{"'" + name + "'"}
}

// execute runs statements and returns the jump that ended them, "" if none did.
func (r *run) execute(list []stmt, s *scope, out *builder) (jump string) {
	for _, statement := range list {
		r.enter()
		jump := statement(r, s, out)
		r.leave()
		if jump != "" {
			return jump
		}
	}
	return ""
}

// capture returns what statements write in a scope of their own, and the jump that ended them.
func (r *run) capture(list []stmt, s *scope) (t text, jump string) {
	b := builder{run: r}
	jump = r.execute(list, s.nested(), &b)
	return b.text(), jump
}

// assign gives the names of a target their values.
func (r *run) assign(targets target, value any, s *scope) {
	if !targets.isSequence {
		s.names[targets.names[0]] = value
		return
	}
	items := r.iterate(value)
	if len(items) != len(targets.names) {
		fail("found %d values to unpack, want %d", len(items), len(targets.names))
	}
	for i, name := range targets.names {
		s.names[name] = items[i]
	}
}

// filterItems returns the items of a loop for which its test is true.
func (r *run) filterItems(items []any, targets target, test expr, s *scope) (passing []any) {
	for _, item := range items {
		inner := s.nested()
		r.assign(targets, item, inner)
		if isTrue(r.eval(test, inner)) {
			passing = append(passing, item)
		}
	}
	return passing
}

// iteration is the variable loop in the iteration of items[i].
type iteration struct {
	items []any
	i     int
}

// attribute returns loop.name.
func (t *iteration) attribute(name string) any {
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
		fail("loop.changed is not supported")
	case "depth": // loops that are not recursive
		return int64(1)
	case "depth0":
		return int64(0)
	}
	return undefined{"'loop object' has no attribute '" + name + "', so it"}
}

// newMacro returns the function that runs m in the scope of its definition.
func (r *run) newMacro(m macroDefinition, s *scope) *function {
	return &function{m.name, func(r *run, args []any, named *dict) any {
		if len(args) > len(m.params) && !m.readsVarargs {
			fail("macro %q takes not more than %d argument(s)", m.name, len(m.params))
		}
		inner := s.nested()
		for i, param := range m.params {
			inner.names[param] = r.macroArgument(m, i, args, named, inner)
		}
		if m.readsVarargs {
			extra := r.newList(args[min(len(args), len(m.params)):])
			extra.isTuple = true
			inner.names["varargs"] = extra
		}
		r.setNamedArguments(m, named, inner)
		b := builder{run: r}
		r.execute(m.body, inner, &b)
		return b.text()
	}}
}

// macroArgument returns the value of a macro's parameter i in a call: an argument by its place or
// its name, or the default. A parameter's default may use those before it, which are in s.
func (r *run) macroArgument(m macroDefinition, i int, args []any, named *dict, s *scope) any {
	param := m.params[i]
	v, hasName := named.get(text{s: param})
	fromEnd := len(m.params) - i
	switch {
	case i < len(args) && hasName:
		fail("macro %q got two values for %q", m.name, param)
	case i < len(args):
		return args[i]
	case hasName:
		return v
	case fromEnd <= len(m.defaults):
		return r.eval(m.defaults[len(m.defaults)-fromEnd], s)
	}
	return undefined{"parameter '" + param + "'"}
}

// setNamedArguments sets the variables caller and kwargs of a macro that reads them. Named
// arguments that are neither these nor parameters are errors.
func (r *run) setNamedArguments(m macroDefinition, named *dict, s *scope) {
	if m.readsCaller && !slices.Contains(m.params, "caller") {
		s.names["caller"] = undefined{"the caller of macro '" + m.name + "'"}
	}
	kwargs := newDict()
	for i, k := range named.keys {
		key := k.(text).s
		if m.readsCaller && key == "caller" {
			s.names["caller"] = named.values[i]
			continue
		}
		if slices.Contains(m.params, key) {
			continue
		}
		kwargs.set(k, named.values[i])
		if !m.readsKwargs {
			fail("macro %q takes no keyword argument %q", m.name, key)
		}
	}
	if m.readsKwargs {
		s.names["kwargs"] = kwargs
	}
}

// globalFunctions returns the functions that every template has.
func globalFunctions() map[string]any {
	functions := map[string]any{}
	for name, call := range map[string]func(r *run, args []any, named *dict) any{
		"range": callRange,
		"namespace": func(r *run, args []any, named *dict) any {
			return &namespace{r.buildDict(args, named)}
		},
		"dict": func(r *run, args []any, named *dict) any { return r.buildDict(args, named) },
		"raise_exception": func(r *run, args []any, _ *dict) any {
			checkArgCount(args, 1, 1, "raise_exception")
			fail("%s", r.pythonStr(args[0]).s)
			return nil
		},
		"strftime_now": func(r *run, args []any, _ *dict) any {
			checkArgCount(args, 1, 1, "strftime_now")
			return r.formatTime(textArg(args, 0, "strftime_now"))
		},
	} {
		functions[name] = &function{name, call}
	}
	for _, name := range []string{"cycler", "joiner", "lipsum"} {
		functions[name] = &function{name, func(*run, []any, *dict) any {
			fail("function %s is not supported", name)
			return nil
		}}
	}
	return functions
}

// buildDict returns the result of dict(...): from another dict or pairs, and from names.
func (r *run) buildDict(args []any, named *dict) *dict {
	d := newDict()
	checkArgCount(args, 0, 1, "dict")
	for _, a := range args {
		if source, ok := a.(*dict); ok {
			a = r.pairsOf(source)
		}
		for _, item := range r.iterate(a) {
			pair := r.iterate(item)
			if len(pair) != 2 {
				fail("dictionary update sequence element has length %d; 2 is required", len(pair))
			}
			d.set(pair[0], pair[1])
		}
	}
	for i, k := range named.keys {
		d.set(k, named.values[i])
	}
	r.countMade(32 * len(d.keys))
	return d
}

// callRange returns Python's range of one to three whole numbers.
func callRange(r *run, args []any, named *dict) any {
	if len(args) < 1 || len(args) > 3 || len(named.keys) > 0 {
		fail("range takes 1 to 3 numbers")
	}
	numbers := [3]int64{0, 0, 1}
	for i, a := range args {
		n, _, whole, ok := asNumber(a)
		if !ok || !whole {
			fail("%q object cannot be interpreted as an integer", typeName(a))
		}
		if len(args) == 1 {
			i = 1 // the end
		}
		numbers[i] = n
	}
	start := numbers[0]
	stop := numbers[1]
	step := numbers[2]
	if step == 0 {
		fail("range() arg 3 must not be zero")
	}
	count := math.Ceil((float64(stop) - float64(start)) / float64(step))
	if count > maxRange {
		fail("range has %.0f numbers, want at most %d", count, maxRange)
	}
	var items []any
	for i := 0; i < int(count); i++ {
		items = append(items, start+int64(i)*step)
	}
	name := fmt.Sprintf("range(%d, %d", start, stop)
	if step != 1 {
		name += fmt.Sprintf(", %d", step)
	}
	return asView(r.newList(items), name+")")
}

// timeLayouts are Go's layouts for the letters of C's strftime that templates use.
var timeLayouts = map[byte]string{
	'a': "Mon",
	'A': "Monday",
	'b': "Jan",
	'B': "January",
	'd': "02",
	'e': "_2",
	'j': "002",
	'm': "01",
	'y': "06",
	'Y': "2006",
	'H': "15",
	'I': "03",
	'M': "04",
	'S': "05",
	'p': "PM",
	'F': "2006-01-02",
	'T': "15:04:05",
	'D': "01/02/06",
	'R': "15:04",
	'Z': "", // the time has no zone, as that of transformers
	'z': "",
}

// formatTime formats the time of the call as C's strftime does. What a format that comes from the
// conversation gives belongs to the conversation.
func (r *run) formatTime(format text) text {
	now := r.now()
	b := builder{run: r}
	for i := 0; i < len(format.s); {
		// Text up to the next percent sign, and one at the end.
		n := strings.IndexByte(format.s[i:], '%')
		if n != 0 || i+1 == len(format.s) {
			if n <= 0 {
				n = len(format.s) - i
			}
			b.add(format.slice(i, i+n))
			i += n
			continue
		}
		start := i
		i++
		trim := format.s[i] == '-' && i+1 < len(format.s) // as in glibc: no leading zero
		if trim {
			i++
		}
		formatted := "%"
		if c := format.s[i]; c != '%' {
			formatted = formatTimePart(now, c, trim)
		}
		i++
		b.addString(formatted, len(format.slice(start, i).user) > 0)
	}
	return b.text()
}

// formatTimePart returns what a letter of strftime stands for; trim leaves out leading zeros.
func formatTimePart(now time.Time, letter byte, trim bool) string {
	layout, ok := timeLayouts[letter]
	if !ok {
		fail("strftime_now: %%%c is not supported", letter)
	}
	formatted := now.Format(layout)
	if trim && formatted != "" {
		last := len(formatted) - 1
		formatted = strings.TrimLeft(formatted[:last], "0 ") + formatted[last:]
	}
	return formatted
}
