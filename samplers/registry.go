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
	// Prototype is a struct of the rule's type. Its zero value has the defaults. Tags of its fields
	// describe parameters, with name, range, default and a line of help, and the rules that it wraps,
	// with the default one:
	//
	//	Theta  float64 `param:"theta 1e-9..1 =0.9" help:"probability that is enough"`
	//	Block  int     `param:"block 1..64 0=all" help:"positions of a block"`
	//	Tokens string  `param:"tokens drawn|likeliest" help:"drawn, or without noise"`
	//	Inside Sampler `inside:"confidence"`
	//
	// 0 or "" in a field means the default, which is the first of several words; 0=all gives 0 the
	// meaning "all". WithDefaults fills them in. A text gives all or none of the rules that another
	// wraps.
	Prototype any

	// Name is what texts call the rule, such as "moment".
	Name string

	// Line says in one line what it does, and Paper names its source.
	Line  string
	Paper string

	// CacheRefusal says why the rule's steps cannot have intermediate stages of partial caching, in
	// words that follow the name. "" means that they can, unless Prototype has a method
	// CacheRefusal() string that says why not, in full.
	CacheRefusal string

	// Drawing says what the temperature of a run is to the rule.
	Drawing Drawing
}

// entry is a registered Rule.
type entry struct {
	Rule
	goType reflect.Type
	order  bool // an Order, not a Sampler
	params []field
	inside []inside
}

// field is a parameter in a field of a rule.
type field struct {
	param.Param
	index int

	// hasDefault says that the default is not the zero value. number is the default of a Number or a
	// Whole.
	hasDefault bool
	number     float64
}

// inside is a rule wrapped by another, in a field.
type inside struct {
	index int
	order bool   // an Order, not a Sampler
	text  string // of the default

	// fallback returns the default. It is built on first use, since the rule that the text names may
	// be registered later than the rule around it.
	fallback func() any
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
	e := &entry{Rule: r, goType: reflect.TypeOf(r.Prototype)}
	_, e.order = r.Prototype.(Order)
	if _, sampler := r.Prototype.(Sampler); !sampler && !e.order {
		panic(fmt.Sprintf("samplers: Register of %s: %T is neither a Sampler nor an Order", r.Name,
			r.Prototype))
	}
	if e.goType.Kind() != reflect.Struct || byName[r.Name] != nil || byType[e.goType] != nil {
		panic(fmt.Sprintf("samplers: Register of %s: the name or %T is registered, or that is no struct",
			r.Name, r.Prototype))
	}

	for i := range e.goType.NumField() {
		f := e.goType.Field(i)
		if tag, ok := f.Tag.Lookup("param"); ok {
			e.params = append(e.params, newField(r.Name, f, i, tag))
		}
		if text, ok := f.Tag.Lookup("inside"); ok {
			e.inside = append(e.inside, newInside(f, i, text))
		}
	}

	registry = append(registry, e)
	byName[r.Name] = e
	byType[e.goType] = e
}

// newField returns the parameter in field i of a rule's struct.
func newField(rule string, f reflect.StructField, i int, tag string) field {
	p := readTag(rule, f, tag)
	if p.Default == "" || p.Default == "0" {
		return field{Param: p, index: i}
	}
	if p.Kind == param.Word {
		return field{Param: p, index: i, hasDefault: true}
	}
	number, err := p.Float(p.Default)
	if err != nil {
		panic(fmt.Sprintf("samplers: Register of %s: default: %v", rule, err))
	}
	return field{Param: p, index: i, hasDefault: true, number: number}
}

// newInside returns the rule wrapped in field i of a rule's struct.
func newInside(f reflect.StructField, i int, text string) inside {
	isOrder := f.Type == reflect.TypeFor[Order]()
	fallback := sync.OnceValue(func() any { return mustBuild(text, isOrder) })
	return inside{index: i, order: isOrder, text: text, fallback: fallback}
}

// readTag returns the parameter that a field's tag describes.
func readTag(rule string, f reflect.StructField, tag string) param.Param {
	tag, zero, _ := strings.Cut(tag, " 0=")
	tag, fallback, _ := strings.Cut(tag, " =")
	name, values, _ := strings.Cut(tag, " ")

	p := param.Param{Name: name, Zero: zero, Default: fallback, Help: f.Tag.Get("help")}
	if zero != "" {
		p.Default = "0"
	}

	low, high, isRange := strings.Cut(values, "..")
	var err error
	if !isRange {
		p.Words = strings.Split(values, "|")
	} else if p.Min, err = strconv.ParseFloat(low, 64); err == nil {
		p.Max, err = strconv.ParseFloat(high, 64)
	}

	switch kind := f.Type.Kind(); {
	case kind == reflect.Float64 && isRange:
		p.Kind = param.Number
	case kind == reflect.Int:
		p.Kind = param.Whole
	case kind == reflect.String && !isRange:
		p.Kind = param.Word
		p.Default = p.Words[0]
	default:
		err = fmt.Errorf("the field is a %s", f.Type)
	}
	if err != nil {
		panic(fmt.Sprintf("samplers: Register of %s: parameter %s: %v", rule, name, err))
	}
	return p
}

// WithDefaults returns a registered rule with the default of its tag in each parameter that is 0 or
// "". The rules that it wraps stay as they are.
//
// A rule keeps 0 where it has the default, so that rules of one meaning are equal however they were
// written, and its methods call WithDefaults before they compute. So the tag is the only place that
// says a default, and help, lists and arithmetic cannot disagree. It allocates nothing: it is
// called for every sequence in every step.
func WithDefaults[T any](rule T) T {
	e := byType[reflect.TypeFor[T]()]
	if e == nil {
		return rule
	}
	v := reflect.ValueOf(&rule).Elem()
	for i := range e.params {
		f := &e.params[i]
		value := v.Field(f.index)
		if !f.hasDefault || !value.IsZero() {
			continue
		}
		switch f.Kind {
		case param.Number:
			value.SetFloat(f.number)
		case param.Whole:
			value.SetInt(int64(f.number))
		case param.Word:
			value.SetString(f.Default)
		}
	}
	return rule
}

// defaultOrder returns the default of the n-th rule inside a T, which is an order.
func defaultOrder[T any](n int) Order {
	return byType[reflect.TypeFor[T]()].inside[n].fallback().(Order)
}

// settableCopy returns a copy of a rule whose fields can be set; of nil, the rule with all
// defaults.
func (e *entry) settableCopy(rule any) reflect.Value {
	v := reflect.New(e.goType).Elem()
	if rule != nil {
		v.Set(reflect.ValueOf(rule))
	}
	return v
}

// pointer returns a pointer to the parameter's field: a *float64, *int or *string.
func (f field) pointer(v reflect.Value) any { return v.Field(f.index).Addr().Interface() }

// ruleOf returns the rule in the field, or the default one.
func (in inside) ruleOf(v reflect.Value) any {
	if rule := v.Field(in.index).Interface(); rule != nil {
		return rule
	}
	return in.fallback()
}

// innerRules returns the rules that a rule wraps.
func innerRules(rule any) (list []any) {
	if w, ok := rule.(Wrapper); ok {
		return w.Unwrap()
	}
	if e := byType[reflect.TypeOf(rule)]; e != nil {
		for _, in := range e.inside {
			list = append(list, in.ruleOf(reflect.ValueOf(rule)))
		}
	}
	return list
}

// innerSampler returns the sampler inside a rule that wraps one.
func innerSampler(rule any) Sampler { return innerRules(rule)[0].(Sampler) }

// CacheRefusal returns why the steps of a rule cannot have intermediate stages of partial caching,
// such as "maskgit draws tokens before it chooses positions", or "" if they can.
func CacheRefusal(rule any) string {
	if e := byType[reflect.TypeOf(rule)]; e != nil && e.CacheRefusal != "" {
		return e.Name + " " + e.CacheRefusal
	}
	if r, ok := rule.(interface{ CacheRefusal() string }); ok && r.CacheRefusal() != "" {
		return r.CacheRefusal()
	}
	for _, inner := range innerRules(rule) {
		if reason := CacheRefusal(inner); reason != "" {
			return reason
		}
	}
	return ""
}
