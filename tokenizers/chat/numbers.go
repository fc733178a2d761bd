package chat

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// What Python's int and float read, of ASCII. Their other numbers, such as 1_000, are not
// supported.
var (
	pythonInt   = regexp.MustCompile(`^[+-]?[0-9]+$`)
	pythonReal  = regexp.MustCompile(`(?i)^[+-]?([0-9]+\.?[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|inf(inity)?|nan)$`)
	otherNumber = regexp.MustCompile(`^[+-]?\.?\pN[\pN_.eE+-]*$`)
)

// filterInt is Jinja's int: a default where the value is no number.
func filterInt(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "int", "default", "base")
	if a, ok := argument(args, 1, named, "base"); ok && !r.equals(a, int64(10)) {
		fail("int with a base other than 10 is not supported")
	}
	otherwise, ok := argument(args, 0, named, "default")
	if !ok {
		otherwise = int64(0)
	}
	if t, ok := v.(text); ok {
		if s := strings.TrimFunc(t.s, isSpace); pythonInt.MatchString(s) {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				fail("int: %.40s is not a whole number of 64 bits", s)
			}
			return n
		}
	}
	if n, _, whole, ok := asNumber(v); ok && whole {
		return n
	}
	f, ok := r.toFloat("int", v)
	switch {
	case !ok || math.IsInf(f, 0) || math.IsNaN(f):
		return otherwise
	case math.Abs(f) >= 1<<63:
		fail("int: %v is not a whole number of 64 bits", f)
	}
	return int64(f)
}

// filterFloat is Jinja's float: a default where the value is no number.
func filterFloat(r *run, v any, args []any, named *dict) any {
	checkNamedArgs(named, "float", "default")
	if f, ok := r.toFloat("float", v); ok {
		return f
	}
	if otherwise, ok := argument(args, 0, named, "default"); ok {
		return otherwise
	}
	return 0.0
}

// toFloat returns Python's float(v), or ok false.
func (r *run) toFloat(filter string, v any) (f float64, ok bool) {
	switch v := v.(type) {
	case undefined:
		v.fail()
	case text:
		r.countRead(len(v.s))
		s := strings.TrimFunc(v.s, isSpace)
		if pythonReal.MatchString(s) {
			f, _ = strconv.ParseFloat(s, 64) // an error means infinity, as in Python
			return f, true
		}
		if otherNumber.MatchString(s) && !pythonInt.MatchString(s) &&
			strings.ContainsFunc(s, func(c rune) bool { return c == '_' || c > unicode.MaxASCII }) {
			fail("%s of %.40q is not supported", filter, s)
		}
		return 0, false
	}
	_, f, _, ok = asNumber(v)
	return f, ok
}
