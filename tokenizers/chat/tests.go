package chat

import "strings"

// testFunc is a function after is.
type testFunc func(r *run, v any, args []any) bool

var tests = map[string]testFunc{
	"defined":   func(r *run, v any, _ []any) bool { _, missing := v.(undefined); return !missing },
	"undefined": func(r *run, v any, _ []any) bool { _, missing := v.(undefined); return missing },
	"none":      func(r *run, v any, _ []any) bool { return v == nil },
	"string":    func(r *run, v any, _ []any) bool { _, ok := v.(text); return ok },
	"escaped":   func(r *run, v any, _ []any) bool { t, _ := v.(text); return t.safe },
	"mapping":   func(r *run, v any, _ []any) bool { _, ok := v.(*dict); return ok },
	"boolean":   func(r *run, v any, _ []any) bool { _, ok := v.(bool); return ok },
	"true":      func(r *run, v any, _ []any) bool { return v == true },
	"false":     func(r *run, v any, _ []any) bool { return v == false },
	"integer":   func(r *run, v any, _ []any) bool { _, ok := v.(int64); return ok },
	"float":     func(r *run, v any, _ []any) bool { _, ok := v.(float64); return ok },
	"callable": func(r *run, v any, _ []any) bool {
		switch v.(type) {
		case *function, *iteration, undefined: // the last two have __call__ in Jinja
			return true
		}
		return false
	},
	"number": func(r *run, v any, _ []any) bool { _, _, _, ok := asNumber(v); return ok },
	"iterable": func(r *run, v any, _ []any) bool {
		switch v.(type) {
		case text, *list, *dict, undefined:
			return true
		}
		return false
	},
	"sequence": func(r *run, v any, _ []any) bool {
		switch v := v.(type) {
		case text, *dict, undefined:
			return true
		case *list:
			return !v.isGenerator
		}
		return false
	},
	"odd":  func(r *run, v any, _ []any) bool { return r.hasRemainder(v, int64(2), 1) },
	"even": func(r *run, v any, _ []any) bool { return r.hasRemainder(v, int64(2), 0) },
	"divisibleby": func(r *run, v any, args []any) bool {
		checkArgCount(args, 1, 1, "divisibleby")
		return r.hasRemainder(v, args[0], 0)
	},
	"in": func(r *run, v any, args []any) bool {
		checkArgCount(args, 1, 1, "in")
		return r.contains(args[0], v)
	},
	"sameas": func(r *run, v any, args []any) bool {
		checkArgCount(args, 1, 1, "sameas")
		if t, ok := v.(text); ok {
			other, is := args[0].(text)
			return is && r.equals(t, other)
		}
		return v == args[0]
	},
}

// hasRemainder reports whether v divided by n leaves a remainder.
func (r *run) hasRemainder(v, n any, remainder int64) bool {
	return r.equals(r.applyBinary("%", v, n), remainder)
}

// findTest returns a test; all of Jinja 3.1 are known.
func findTest(name string) testFunc {
	if tests[name] == nil {
		fail("test %.40q is not known", name)
	}
	return tests[name]
}

// lookupName returns a text, and "" for other values that Python can look up in a dict. Values that
// it cannot look up are errors, as they are there.
func lookupName(v any) string {
	switch v := v.(type) {
	case text:
		return v.s
	case *list:
		if v.isTuple || v.isGenerator || v.viewName != "" {
			return ""
		}
		hashKey(v)
	case *dict:
		hashKey(v)
	}
	return ""
}

// init adds the tests that look up tests and filters.
func init() {
	tests["filter"] = func(r *run, v any, _ []any) bool {
		name := lookupName(v)
		return filters[name] != nil || strings.Contains(unsupportedFilters, " "+name+" ")
	}
	for _, name := range []string{"lower", "upper"} {
		tests[name] = func(*run, any, []any) bool {
			fail("test %s is not supported", name)
			return false
		}
	}
	tests["test"] = func(r *run, v any, _ []any) bool { return tests[lookupName(v)] != nil }
	for name, op := range map[string]string{
		"==":          "==",
		"eq":          "==",
		"equalto":     "==",
		"!=":          "!=",
		"ne":          "!=",
		"<":           "<",
		"lt":          "<",
		"lessthan":    "<",
		"<=":          "<=",
		"le":          "<=",
		">":           ">",
		"gt":          ">",
		"greaterthan": ">",
		">=":          ">=",
		"ge":          ">=",
	} {
		tests[name] = func(r *run, v any, args []any) bool {
			checkArgCount(args, 1, 1, name)
			return r.compare(op, v, args[0])
		}
	}
}
