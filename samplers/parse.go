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
	key     string
	value   string
	replace bool // it replaces what the text sets
}

// WithParam returns a parameter for Parse.
func WithParam(key string, value float64) ParamValue {
	return ParamValue{key: key, value: param.Format(value)}
}

// ReplaceParam returns a parameter for Parse that replaces what the text sets.
func ReplaceParam(key string, value float64) ParamValue {
	return ParamValue{key: key, value: param.Format(value), replace: true}
}

// Parse builds a sampler from a name, such as "halton", with parameters, "moment(alpha=3)", and
// with rules inside, "hybrid(halton,u-moment)". An order alone becomes a ChooseThenSample, which
// adds the parameter gamma. A parameter in the parentheses of a rule that does not have it applies
// to the rules inside: "hybrid(alpha=3)" is "hybrid(halton,u-moment(alpha=3))".
//
// A parameter that the text sets to its default becomes 0, so that texts of one meaning give equal
// samplers. An error quotes the text and says which name or value in it no rule has.
func Parse(text string, values ...ParamValue) (Sampler, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("samplers: text is %d bytes, want at most %d", len(text), maxText)
	}
	rule, err := parseAndCheck(text, values)
	if err != nil {
		return nil, fmt.Errorf("samplers: %s: %w", param.Quote(text), err)
	}
	return rule.(Sampler), nil
}

// parseAndCheck is Parse with errors that do not name the text.
func parseAndCheck(text string, values []ParamValue) (any, error) {
	p := parser{rest: text}
	root, err := p.readRule()
	if err != nil {
		return nil, err
	}
	if p.skipBlanks() != "" {
		return nil, fmt.Errorf("found %s after the end", param.Quote(p.rest))
	}

	var outer []*setting
	for _, v := range values {
		outer = append(outer, &setting{ParamValue: v})
	}
	rule, err := root.build(outer, false)
	if err != nil {
		return nil, err
	}
	if err := Check(rule); err != nil {
		// Parse puts this package's name at the front, where Check has it too.
		return nil, errors.New(strings.TrimPrefix(err.Error(), "samplers: "))
	}
	return rule, nil
}

// UsesParam reports whether a parameter that WithParam gives to Parse has an effect on any rule of
// a text.
func UsesParam(text, key string) bool { return acceptsValue(text, ParamValue{key: key}) }

// HasParam reports whether any rule of a text has a parameter, whether or not the text sets it.
func HasParam(text, key string) bool {
	return acceptsValue(text, ParamValue{key: key, replace: true})
}

// acceptsValue reports whether a rule of a text takes a parameter. Its value is empty, which a rule
// refuses, but only after it has taken it.
func acceptsValue(text string, v ParamValue) bool {
	root, err := (&parser{rest: text}).readRule()
	if err != nil {
		return false
	}
	s := &setting{ParamValue: v}
	_, _ = root.build([]*setting{s}, false)
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

// parser reads the text of a rule; rest is what it has not read yet.
type parser struct{ rest string }

// skipBlanks skips blanks and returns the rest of the text.
func (p *parser) skipBlanks() string {
	p.rest = strings.TrimLeft(p.rest, " \t")
	return p.rest
}

// skipByte skips one byte, after blanks, if it is c.
func (p *parser) skipByte(c byte) bool {
	if s := p.skipBlanks(); s != "" && s[0] == c {
		p.rest = s[1:]
		return true
	}
	return false
}

// readWord reads a name, a key or a number.
func (p *parser) readWord() string {
	s := p.skipBlanks()
	n := strings.IndexAny(s, "(),= \t")
	if n < 0 {
		n = len(s)
	}
	p.rest = s[n:]
	return s[:n]
}

// readRule reads a rule: a name and what stands in parentheses after it.
func (p *parser) readRule() (*node, error) { return p.readParentheses(p.readWord(), 0) }

// readParentheses reads what may stand in parentheses after a rule's name: parameters and rules.
func (p *parser) readParentheses(name string, depth int) (*node, error) {
	e, err := findRule(name)
	if err != nil {
		return nil, err
	}
	n := &node{entry: e}
	if !p.skipByte('(') || p.skipByte(')') {
		return n, nil
	}
	for {
		word := p.readWord()
		switch {
		case word == "" && p.rest == "":
			return nil, fmt.Errorf("no ) after %s(, want one", name)
		case len(n.settings) > maxSettings:
			return nil, fmt.Errorf("%s has more than %d parameters", name, maxSettings)
		case p.skipByte('='):
			value := ParamValue{key: word, value: p.readWord()}
			n.settings = append(n.settings, &setting{ParamValue: value})
		case len(e.inside) == 0:
			return nil, fmt.Errorf("%s takes no sampler inside, found %s", name, param.Quote(word))
		case depth >= maxNesting:
			return nil, fmt.Errorf("nested deeper than %d", maxNesting)
		default:
			inner, err := p.readParentheses(word, depth+1)
			if err != nil {
				return nil, err
			}
			n.inner = append(n.inner, inner)
		}
		if p.skipByte(')') {
			return n, nil
		}
		if !p.skipByte(',') {
			return nil, fmt.Errorf("want a comma or ) after %s's parameters, found %s", name,
				param.Quote(p.rest))
		}
	}
}

// findRule returns the registered rule with a name.
func findRule(name string) (*entry, error) {
	if e := byName[name]; e != nil {
		return e, nil
	}
	return nil, param.Unknown("sampler", name, slices.Collect(maps.Keys(byName)))
}

// build makes the rule of a node, as an order or as a sampler. outer are the parameters set around
// the node, the innermost first.
func (n *node) build(outer []*setting, asOrder bool) (any, error) {
	e := n.entry
	v := e.settableCopy(nil)
	for _, f := range e.params {
		if err := n.setParam(f.Param, f.pointer(v), outer); err != nil {
			return nil, err
		}
	}
	gamma := 0.0
	if e.order && !asOrder {
		if err := n.setParam(GammaParam, &gamma, outer); err != nil {
			return nil, err
		}
	}
	if err := n.buildInside(v, outer); err != nil {
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
			return nil, n.unknownParam(s.key, asOrder)
		}
	}
	return rule, nil
}

// mustBuild returns the rule that a tag names. It panics where the tag is wrong, which is a mistake
// in the program.
func mustBuild(text string, asOrder bool) any {
	n, err := (&parser{rest: text}).readRule()
	if err == nil {
		var rule any
		if rule, err = n.build(nil, asOrder); err == nil {
			return rule
		}
	}
	panic(fmt.Sprintf("samplers: %q in a tag: %v", text, err))
}

// setParam sets a parameter's field from the settings around the node that replace others, or else
// from the node's own, or else from those around it.
func (n *node) setParam(p param.Param, value any, outer []*setting) error {
	var source *setting
	for _, s := range outer {
		if s.replace && s.key == p.Name {
			source = s
		}
	}

	replaced := source != nil
	for _, s := range n.settings {
		switch {
		case s.key != p.Name:
		case replaced:
			s.used = true
		case source != nil:
			return fmt.Errorf("%s: %s is given twice, want it once", n.entry.Name, p.Name)
		default:
			source = s
		}
	}

	for i := 0; i < len(outer) && source == nil; i++ {
		if outer[i].key == p.Name {
			source = outer[i]
		}
	}
	if source == nil {
		return nil
	}
	source.used = true
	return param.AtPlace(n.entry.Name, setFromText(p, value, source.value))
}

// buildInside builds the rules inside. If they are the defaults the fields stay nil, so that rules
// of one meaning are equal.
func (n *node) buildInside(v reflect.Value, outer []*setting) error {
	e := n.entry
	inner := n.inner
	if len(inner) == 0 {
		for _, in := range e.inside {
			fallback, err := (&parser{rest: in.text}).readRule()
			if err != nil {
				return err
			}
			inner = append(inner, fallback)
		}
	}
	if len(inner) != len(e.inside) {
		return fmt.Errorf("%s takes %s or none, found %d", e.Name, e.describeInside(), len(inner))
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

	if len(e.insideTexts(v)) == 0 {
		for _, in := range e.inside {
			v.Field(in.index).SetZero()
		}
	}
	return nil
}

// unknownParam returns the error for a parameter that neither a rule nor any rule inside has.
func (n *node) unknownParam(key string, asOrder bool) error {
	var names []string
	addNames := func(e *entry, asSampler bool) {
		for _, p := range e.acceptedParams(asSampler) {
			names = append(names, p.Name)
		}
	}
	addNames(n.entry, !asOrder)
	for _, in := range n.inner {
		addNames(in.entry, false)
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
	isRegistered := func(rule any) bool {
		if c, ok := rule.(ChooseThenSample); ok {
			rule = c.Order
		}
		return byType[reflect.TypeOf(rule)] != nil
	}
	return isRegistered(a) && isRegistered(b) && Text(a) == Text(b)
}
