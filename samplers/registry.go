package samplers

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"unmask/param"
)

// Rule describes a Sampler or an Order; Parse, Text, Check and List need nothing else.
type Rule struct {
	// Prototype is the rule, a struct whose zero value has the defaults. Tags of its fields describe
	// parameters, with name, range, default and a line of help, and the rules that it wraps, with the
	// default one:
	//
	//	Theta  float64 `param:"theta 1e-9..1 =0.9" help:"probability that is enough"`
	//	Block  int     `param:"block 1..64 0=all" help:"positions of a block"`
	//	Tokens string  `param:"tokens drawn|likeliest" help:"drawn, or without noise"`
	//	Inside Sampler `inside:"confidence"`
	//
	// 0 or "" in a field means the default, which is the first of several words; 0=all gives 0 the
	// meaning "all". A text gives all or none of the rules that another wraps.
	Prototype any

	Name  string // such as "moment"
	Line  string // what it does
	Paper string // its source
	// why its steps cannot have intermediate stages of partial caching, in words that follow the
	// name; "": they can, unless Of has a method CacheRefusal() string that says why not, in full
	CacheRefusal string
	Drawing      Drawing // what the temperature of a run is to it
}

// entry is a registered Rule.
type entry struct {
	Rule
	kind   reflect.Type
	order  bool // an Order, not a Sampler
	params []field
	inside []inside
}

// field is a parameter in a field of a rule.
type field struct {
	param.Param
	index int
}

// inside is a rule wrapped by another, in a field.
type inside struct {
	index    int
	order    bool       // an Order, not a Sampler
	text     string     // of the default
	fallback func() any // the default
}

var (
	registry []*entry
	byName   = map[string]*entry{}
	byType   = map[reflect.Type]*entry{}
)

// Register makes a rule known by its name to Parse, and so to flags, sweeps and lists. Call it from
// an init function. It panics if the name or type is already registered, if the type is neither a
// Sampler nor an Order, or if a tag cannot be read.
func Register(r Rule) {
	e := &entry{Rule: r, kind: reflect.TypeOf(r.Prototype)}
	_, e.order = r.Prototype.(Order)
	if _, sampler := r.Prototype.(Sampler); !sampler && !e.order {
		panic(fmt.Sprintf("samplers: Register of %s: %T is neither a Sampler nor an Order", r.Name, r.Prototype))
	}
	if e.kind.Kind() != reflect.Struct || byName[r.Name] != nil || byType[e.kind] != nil {
		panic(fmt.Sprintf("samplers: Register of %s: the name or %T is registered, or that is no struct",
			r.Name, r.Prototype))
	}
	for i := range e.kind.NumField() {
		f := e.kind.Field(i)
		if tag, ok := f.Tag.Lookup("param"); ok {
			e.params = append(e.params, field{readTag(r.Name, f, tag), i})
		}
		if text, ok := f.Tag.Lookup("inside"); ok {
			in := inside{index: i, order: f.Type == reflect.TypeFor[Order](), text: text}
			in.fallback = sync.OnceValue(func() any { return mustBuild(text, in.order) })
			e.inside = append(e.inside, in)
		}
	}
	registry = append(registry, e)
	byName[r.Name], byType[e.kind] = e, e
}

// readTag returns the parameter in a field of a rule.
func readTag(rule string, f reflect.StructField, tag string) param.Param {
	tag, zero, _ := strings.Cut(tag, " 0=")
	tag, otherwise, _ := strings.Cut(tag, " =")
	name, values, _ := strings.Cut(tag, " ")
	p := param.Param{Name: name, Zero: zero, Default: otherwise, Help: f.Tag.Get("help")}
	if zero != "" {
		p.Default = "0"
	}
	low, high, ranged := strings.Cut(values, "..")
	var failed error
	if !ranged {
		p.Words = strings.Split(values, "|")
	} else if p.Min, failed = strconv.ParseFloat(low, 64); failed == nil {
		p.Max, failed = strconv.ParseFloat(high, 64)
	}
	switch kind := f.Type.Kind(); {
	case kind == reflect.Float64 && ranged:
	case kind == reflect.Int:
		p.Kind = param.Whole
	case kind == reflect.String && !ranged:
		p.Kind, p.Default = param.Word, p.Words[0]
	default:
		failed = fmt.Errorf("the field is a %s", f.Type)
	}
	if failed != nil {
		panic(fmt.Sprintf("samplers: Register of %s: parameter %s: %v", rule, name, failed))
	}
	return p
}

// open returns a copy of a rule whose fields can be set, of nil that with the defaults.
func (e *entry) open(rule any) reflect.Value {
	v := reflect.New(e.kind).Elem()
	if rule != nil {
		v.Set(reflect.ValueOf(rule))
	}
	return v
}

// at returns a pointer to the parameter's field: a *float64, *int or *string.
func (f field) at(v reflect.Value) any { return v.Field(f.index).Addr().Interface() }

// of returns the rule in a field, or the default one.
func (in inside) of(v reflect.Value) any {
	if rule := v.Field(in.index).Interface(); rule != nil {
		return rule
	}
	return in.fallback()
}

// wrapped returns the rules inside a rule.
func wrapped(rule any) (list []any) {
	if w, ok := rule.(Wrapper); ok {
		return w.Unwrap()
	}
	if e := byType[reflect.TypeOf(rule)]; e != nil {
		for _, in := range e.inside {
			list = append(list, in.of(reflect.ValueOf(rule)))
		}
	}
	return list
}

// inner returns the sampler inside a rule.
func inner(rule any) Sampler { return wrapped(rule)[0].(Sampler) }

// CacheRefusal returns why the steps of a rule cannot have intermediate stages of partial
// caching, such as "maskgit draws tokens before it chooses positions", or "" if they can.
func CacheRefusal(rule any) string {
	if e := byType[reflect.TypeOf(rule)]; e != nil && e.CacheRefusal != "" {
		return e.Name + " " + e.CacheRefusal
	}
	if u, ok := rule.(interface{ CacheRefusal() string }); ok && u.CacheRefusal() != "" {
		return u.CacheRefusal()
	}
	for _, inner := range wrapped(rule) {
		if why := CacheRefusal(inner); why != "" {
			return why
		}
	}
	return ""
}
