package samplers

import (
	"fmt"
	"reflect"

	"unmask/param"
)

// Rule describes a Sampler or an Order of type T; Parse, Text, Check and List need nothing else. T
// is a struct whose zero value has the defaults; its fields are the parameters and the rules inside
// it, and nothing else.
type Rule[T any] struct {
	Name   string // such as "moment"
	Line   string // what it does
	Paper  string // its source
	Params []Param[T]
	Inside []Inside[T] // the rules that it wraps; a text gives all or none of them
}

// Param is a parameter of a rule: its description and its field. 0 or "" in the field means the
// default.
type Param[T any] struct {
	param.Param
	field func(*T) any // *float64, *int or *string
}

// Number returns a parameter stored in a float64.
func Number[T any](field func(*T) *float64, p param.Param) Param[T] {
	p.Kind = param.Number
	return Param[T]{p, func(t *T) any { return field(t) }}
}

// Whole returns a parameter stored in an int.
func Whole[T any](field func(*T) *int, p param.Param) Param[T] {
	p.Kind = param.Whole
	return Param[T]{p, func(t *T) any { return field(t) }}
}

// Word returns a parameter stored in a string, one of p.Words.
func Word[T any](field func(*T) *string, p param.Param) Param[T] {
	p.Kind = param.Word
	return Param[T]{p, func(t *T) any { return field(t) }}
}

// Inside is a rule wrapped by another, stored in a field; nil means the default.
type Inside[T any] struct {
	field func(*T) any // *Order or *Sampler
	rule  any          // the default
}

// OrderInside returns an order stored in a field.
func OrderInside[T any](field func(*T) *Order, def Order) Inside[T] {
	return Inside[T]{func(t *T) any { return field(t) }, def}
}

// SamplerInside returns a sampler stored in a field.
func SamplerInside[T any](field func(*T) *Sampler, def Sampler) Inside[T] {
	return Inside[T]{func(t *T) any { return field(t) }, def}
}

// Info describes a registered rule.
type Info struct {
	Name, Line, Paper string
	// as Parse takes them in parentheses, those of rules inside last
	Params []param.Param
	// what may stand in parentheses, such as "an order"; "" means nothing
	Inside string

	Order   bool // an Order; Parse makes it a sampler as a ChooseThenSample
	Foreign bool // registered by another package than this one
}

// entry is a Rule without its type parameter. Its functions take a pointer to a T.
type entry struct {
	name, line, paper string
	params            []field
	inside            []inside
	order             bool            // an Order, not a Sampler
	pointer           func(t any) any // returns a pointer to a copy of a T; for nil, to a zero T
	value             func(p any) any // returns the T behind a pointer
}

type field struct {
	param.Param
	at func(p any) any
}

type inside struct {
	at  func(p any) any
	def any
}

var (
	registry []*entry
	byName   = map[string]*entry{}
	byType   = map[reflect.Type]*entry{}
)

// Register makes a rule known by its name to Parse, and so to flags, sweeps and lists. Call it from
// an init function. It panics if the name or type is already registered, or if T is neither a
// Sampler nor an Order.
func Register[T any](r Rule[T]) {
	e := &entry{
		name: r.Name, line: r.Line, paper: r.Paper,
		pointer: func(t any) any {
			p := new(T)
			if t != nil {
				*p = t.(T)
			}
			return p
		},
		value: func(p any) any { return *p.(*T) },
	}
	for _, p := range r.Params {
		e.params = append(e.params, field{p.Param, func(t any) any { return p.field(t.(*T)) }})
	}
	for _, in := range r.Inside {
		e.inside = append(e.inside, inside{func(t any) any { return in.field(t.(*T)) }, in.rule})
	}
	var zero T
	_, e.order = any(zero).(Order)
	if _, sampler := any(zero).(Sampler); !sampler && !e.order {
		panic(fmt.Sprintf("samplers: Register of %s: %T is neither a Sampler nor an Order", r.Name, zero))
	}
	kind := reflect.TypeFor[T]()
	if byName[r.Name] != nil || byType[kind] != nil {
		panic(fmt.Sprintf("samplers: Register of %s: the name or %T is registered", r.Name, zero))
	}
	registry = append(registry, e)
	byName[r.Name], byType[kind] = e, e
}

func init() { // the paper's first
	Register(randomRule)
	Register(vanillaRule)
	Register(maskgitRule)
	Register(momentRule)
	Register(uMomentRule)
	Register(tempRule)
	Register(haltonRule)
	Register(hybridRule)
	Register(confidenceRule)
	Register(marginRule)
	Register(entropyRule)
	Register(ebRule)
	Register(firstHittingRule)
	Register(thresholdRule)
	Register(factorRule)
	Register(entropyThresholdRule)
	Register(multiBlockRule)
	Register(frechetRule)
	Register(creditRule)
	Register(pcRule)
	Register(semiARRule)
	Register(greedyRule)
	Register(lowConfidenceRule)
	Register(dynamicRule)
	Register(fastDLLMv2Rule)
	Register(selfSpeculationRule)
	Register(draftRule)
	Register(s2d2Rule)
	Register(wedlmRule)
	Register(dreamonRule)
	Register(daedalRule)
	Register(rhoEOSRule)
	Register(editRule)
	Register(klassRule)
	Register(infoGainRule)
	Register(winoRule)
	Register(p2Rule)
	Register(dplmRule)
	Register(remdmRule)
	Register(trapezoidalRule)
	Register(titokRule)
	Register(amusedRule)
	Register(haltonMaskGITRule)
	Register(maskgitRedrawRule)
	Register(omniVoiceRule)
	Register(codebooksRule)
}

// List describes all registered rules, the paper's first.
func List() []Info {
	var out []Info
	for _, e := range registry {
		out = append(out, e.info())
	}
	return out
}

func (e *entry) info() Info {
	return Info{Name: e.name, Line: e.line, Paper: e.paper, Params: e.takes(true),
		Inside: e.goesAround(), Order: e.order,
		Foreign: reflect.TypeOf(e.value(e.pointer(nil))).PkgPath() != reflect.TypeFor[Random]().PkgPath()}
}

// takes returns the parameters that a text may give to a rule: its own, those of its default rules
// inside and, if it is an order used as a sampler, gamma.
func (e *entry) takes(sampler bool) []param.Param {
	var out []param.Param
	add := func(p param.Param) {
		for _, q := range out {
			if p.Name == q.Name {
				return
			}
		}
		out = append(out, p)
	}
	for _, f := range e.params {
		add(f.Param)
	}
	for _, in := range e.inside {
		rule := in.def
		c, composed := rule.(ChooseThenSample)
		if composed {
			rule = c.Order
		}
		if of := byType[reflect.TypeOf(rule)]; of != nil {
			for _, p := range of.takes(composed) {
				add(p)
			}
		}
	}
	if e.order && sampler {
		add(GammaParam)
	}
	return out
}

// goesAround returns a description of what may stand inside a rule.
func (e *entry) goesAround() string {
	if len(e.inside) == 0 {
		return ""
	}
	what := "sampler"
	if _, order := e.inside[0].at(e.pointer(nil)).(*Order); order {
		what = "order"
	}
	switch len(e.inside) {
	case 1:
		if what == "order" {
			return "an " + what
		}
		return "a " + what
	case 2:
		return "two " + what + "s"
	}
	return fmt.Sprintf("%d %ss", len(e.inside), what)
}
