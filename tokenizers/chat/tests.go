package chat

import "strings"

// test is a function after is.
type test func(r *run, v any, args []any) bool

var tests = map[string]test{
	"defined":   func(r *run, v any, _ []any) bool { _, missing := v.(undefined); return !missing },
	"undefined": func(r *run, v any, _ []any) bool { _, missing := v.(undefined); return missing },
	"none":      func(r *run, v any, _ []any) bool { return v == nil },
	"string":    func(r *run, v any, _ []any) bool { _, ok := v.(text); return ok },
	"mapping":   func(r *run, v any, _ []any) bool { _, ok := v.(*dict); return ok },
	"boolean":   func(r *run, v any, _ []any) bool { _, ok := v.(bool); return ok },
	"true":      func(r *run, v any, _ []any) bool { return v == true },
	"false":     func(r *run, v any, _ []any) bool { return v == false },
	"integer":   func(r *run, v any, _ []any) bool { return typeName(v) == "int" },
	"float":     func(r *run, v any, _ []any) bool { _, ok := v.(float64); return ok },
	"callable": func(r *run, v any, _ []any) bool {
		switch v.(type) {
		case *function, *turn, undefined: // the last two have __call__ in Jinja
			return true
		}
		return false
	},
	"number": func(r *run, v any, _ []any) bool {
		_, _, _, ok := number(v)
		return ok || typeName(v) == "int"
	},
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
			return !v.once
		}
		return false
	},
	"odd": func(r *run, v any, _ []any) bool {
		return r.equal(r.binary("%", v, int64(2)),
			int64(1))
	},
	"even": func(r *run, v any, _ []any) bool {
		return r.equal(r.binary("%", v, int64(2)),
			int64(0))
	},
	"divisibleby": func(r *run, v any, args []any) bool {
		want(args, 1, 1, "divisibleby")
		return r.equal(r.binary("%", v, args[0]), int64(0))
	},
	"in": func(r *run, v any, args []any) bool {
		want(args, 1, 1, "in")
		return r.contains(args[0], v)
	},
	"lower": func(r *run, v any, _ []any) bool {
		s := r.str(v).s
		r.touch(4 * len(s))
		return s == strings.ToLower(s) && s != strings.ToUpper(s)
	},
	"upper": func(r *run, v any, _ []any) bool {
		s := r.str(v).s
		r.touch(4 * len(s))
		return s == strings.ToUpper(s) && s != strings.ToLower(s)
	},
	"sameas": func(r *run, v any, args []any) bool {
		want(args, 1, 1, "sameas")
		if t, ok := v.(text); ok {
			other, is := args[0].(text)
			return is && r.equal(t, other)
		}
		return v == args[0]
	},
}

func init() {
	for name, op := range map[string]string{
		"eq": "==", "equalto": "==", "==": "==", "ne": "!=", "!=": "!=", "lt": "<", "lessthan": "<",
		"<":  "<",
		"le": "<=", "<=": "<=", "gt": ">", "greaterthan": ">", ">": ">", "ge": ">=", ">=": ">=",
	} {
		tests[name] = func(r *run, v any, args []any) bool {
			want(args, 1, 1, name)
			return r.compare(op, v, args[0])
		}
	}
}
