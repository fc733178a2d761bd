package samplers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"unmask/param"
)

// Limits of what Parse reads.
const (
	maxNesting  = 8
	maxSettings = 64      // parameters of one rule
	maxText     = 1 << 16 // bytes
)

// ParamValue sets a parameter of all rules in a text that have it and for which the text does not
// set it.
type ParamValue struct {
	key, value string
	instead    bool // it replaces what the text sets
}

// WithParam returns a parameter for Parse.
func WithParam(key string, value float64) ParamValue {
	return ParamValue{key: key, value: param.Format(value)}
}

// ReplaceParam returns a parameter for Parse that replaces what the text sets.
func ReplaceParam(key string, value float64) ParamValue {
	return ParamValue{key, param.Format(value), true}
}

// Parse builds a sampler from a name, such as "halton", with parameters, "moment(alpha=3)", and
// with rules inside, "hybrid(halton,u-moment)". An order alone becomes a ChooseThenSample, which
// adds the parameter gamma. A parameter in the parentheses of a rule that does not have it applies
// to the rules inside: "hybrid(alpha=3)" is "hybrid(halton,u-moment(alpha=3))".
//
// A parameter that the text sets to its default becomes 0, so that texts of one meaning give equal
// samplers.
func Parse(text string, given ...ParamValue) (Sampler, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("samplers: text is %d bytes, want at most %d", len(text), maxText)
	}
	p := parser{rest: text}
	n, err := p.whole()
	if err == nil && p.space() != "" {
		err = fmt.Errorf("found %s after the end", param.Quote(p.rest))
	}
	var rule any
	if err == nil {
		var outer []*setting
		for _, g := range given {
			outer = append(outer, &setting{ParamValue: g})
		}
		rule, err = n.build(outer, false)
	}
	if err == nil {
		if err = Check(rule); err != nil { // which has this package's name at the front
			err = errors.New(strings.TrimPrefix(err.Error(), "samplers: "))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("samplers: %s: %w", param.Quote(text), err)
	}
	return rule.(Sampler), nil
}

// UsesParam reports whether a parameter that With gives to Parse has an effect on any rule of a
// text.
func UsesParam(text, key string) bool { return takes(text, ParamValue{key: key}) }

// HasParam reports whether any rule of a text has a parameter, whether or not the text sets it.
func HasParam(text, key string) bool { return takes(text, ParamValue{key: key, instead: true}) }

func takes(text string, g ParamValue) bool {
	n, err := (&parser{rest: text}).whole()
	if err != nil {
		return false
	}
	s := &setting{ParamValue: g}
	// an empty value is refused, but only after a rule has taken it
	_, _ = n.build([]*setting{s}, false)
	return s.used
}

// node is a rule as parsed.
type node struct {
	entry    *entry
	settings []*setting
	inner    []*node
}

// setting is a parameter with its value; used is set when a rule takes it.
type setting struct {
	ParamValue
	used bool
}

type parser struct{ rest string }

// space skips blanks and returns the rest of the text.
func (p *parser) space() string {
	p.rest = strings.TrimLeft(p.rest, " \t")
	return p.rest
}

// take skips one byte if it is c.
func (p *parser) take(c byte) bool {
	if s := p.space(); s != "" && s[0] == c {
		p.rest = s[1:]
		return true
	}
	return false
}

// word reads a name, a key or a number.
func (p *parser) word() string {
	s := p.space()
	n := strings.IndexAny(s, "(),= \t")
	if n < 0 {
		n = len(s)
	}
	p.rest = s[n:]
	return s[:n]
}

// node reads the parentheses after a name.
func (p *parser) node(name string, depth int) (*node, error) {
	e, err := find(name)
	if err != nil {
		return nil, err
	}
	n := &node{entry: e}
	if !p.take('(') || p.take(')') {
		return n, nil
	}
	for {
		word := p.word()
		switch {
		case word == "" && p.rest == "":
			return nil, fmt.Errorf("no ) after %s(, want one", name)
		case len(n.settings) > maxSettings:
			return nil, fmt.Errorf("%s has more than %d parameters", name, maxSettings)
		case p.take('='):
			n.settings = append(n.settings, &setting{ParamValue: ParamValue{key: word, value: p.word()}})
		case len(e.inside) == 0:
			return nil, fmt.Errorf("%s takes no sampler inside, found %s", name, param.Quote(word))
		case depth >= maxNesting:
			return nil, fmt.Errorf("nested deeper than %d", maxNesting)
		default:
			inner, err := p.node(word, depth+1)
			if err != nil {
				return nil, err
			}
			n.inner = append(n.inner, inner)
		}
		if p.take(')') {
			return n, nil
		}
		if !p.take(',') {
			return nil, fmt.Errorf("want a comma or ) after %s's parameters, found %s", name,
				param.Quote(p.rest))
		}
	}
}

func find(name string) (*entry, error) {
	if e := byName[name]; e != nil {
		return e, nil
	}
	return nil, param.Unknown("sampler", name, slices.Collect(maps.Keys(byName)))
}

// build makes the rule of a node, as an order or as a sampler. outer are the parameters set around
// the node, the innermost first.
func (n *node) build(outer []*setting, asOrder bool) (any, error) {
	e := n.entry
	v, gamma := e.open(nil), 0.0
	for _, f := range e.params {
		if err := n.set(f.Param, f.at(v), outer); err != nil {
			return nil, err
		}
	}
	if e.order && !asOrder {
		if err := n.set(GammaParam, &gamma, outer); err != nil {
			return nil, err
		}
	}
	if err := n.fill(v, outer); err != nil {
		return nil, err
	}
	rule := v.Interface()
	switch order := rule.(type) {
	case Order:
		if !asOrder {
			rule = ChooseThenSample{Order: order, Gamma: gamma}
		}
	case OrderSampler:
		if asOrder {
			rule = order.Ordering()
		}
	default:
		if asOrder {
			return nil, fmt.Errorf("%s is a sampler that is more than an order, want an order", e.Name)
		}
	}
	for _, s := range n.settings {
		if !s.used {
			return nil, n.stranger(s.key, asOrder)
		}
	}
	return rule, nil
}

// mustBuild returns the rule of a text in a tag.
func mustBuild(text string, asOrder bool) any {
	n, err := (&parser{rest: text}).whole()
	if err == nil {
		var rule any
		if rule, err = n.build(nil, asOrder); err == nil {
			return rule
		}
	}
	panic(fmt.Sprintf("samplers: %q in a tag: %v", text, err))
}

// set sets a field from the settings around the node that replace others, or else from the node's
// own, or else from those around it.
func (n *node) set(p param.Param, at any, outer []*setting) error {
	var from *setting
	for _, s := range outer {
		if s.instead && s.key == p.Name {
			from = s
		}
	}
	replaced := from != nil
	for _, s := range n.settings {
		switch {
		case s.key != p.Name:
		case replaced:
			s.used = true
		case from != nil:
			return fmt.Errorf("%s: %s is given twice, want it once", n.entry.Name, p.Name)
		default:
			from = s
		}
	}
	for i := 0; i < len(outer) && from == nil; i++ {
		if outer[i].key == p.Name {
			from = outer[i]
		}
	}
	if from == nil {
		return nil
	}
	from.used = true
	return param.AtPlace(n.entry.Name, set(p, at, from.value))
}

// fill builds the rules inside. If they are the defaults the fields stay nil.
func (n *node) fill(v reflect.Value, outer []*setting) error {
	e, inner := n.entry, n.inner
	if len(inner) == 0 {
		for _, in := range e.inside {
			d, err := (&parser{rest: in.text}).whole()
			if err != nil {
				return err
			}
			inner = append(inner, d)
		}
	}
	if len(inner) != len(e.inside) {
		return fmt.Errorf("%s takes %s or none, found %d", e.Name, e.goesAround(), len(inner))
	}
	scope := outer
	for _, s := range n.settings {
		if !s.used { // a parameter that the rule takes does not apply to the rules inside
			scope = append([]*setting{s}, scope...)
		}
	}
	for i, in := range e.inside {
		rule, err := inner[i].build(scope, in.order)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		v.Field(in.index).Set(reflect.ValueOf(rule))
	}
	if len(e.insideText(v)) == 0 {
		for _, in := range e.inside {
			v.Field(in.index).SetZero()
		}
	}
	return nil
}

func (p *parser) whole() (*node, error) { return p.node(p.word(), 0) }

// stranger returns the error for a parameter that neither a rule nor any rule inside has.
func (n *node) stranger(key string, asOrder bool) error {
	var names []string
	collect := func(e *entry, sampler bool) {
		for _, p := range e.takes(sampler) {
			names = append(names, p.Name)
		}
	}
	collect(n.entry, !asOrder)
	for _, in := range n.inner {
		collect(in.entry, false)
	}
	return fmt.Errorf("%s has no parameter %s, want %s", n.entry.Name, param.Quote(key),
		cmp.Or(param.JoinOr(names), "none"))
}

// OrderSampler is a sampler that chooses by an order alone. It may stand where an order is
// expected.
type OrderSampler interface {
	Ordering() Order
}

// Equal reports whether two registered rules have the same effect.
func Equal(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	known := func(rule any) bool {
		if c, ok := rule.(ChooseThenSample); ok {
			rule = c.Order
		}
		return byType[reflect.TypeOf(rule)] != nil
	}
	return known(a) && known(b) && Text(a) == Text(b)
}
