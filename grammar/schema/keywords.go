package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"

	"unmask/grammar"
)

// reader reads the keywords of one kind of values into a shape.
type reader struct {
	d   *document
	e   *expr
	o   *object
	err error
}

func (r *reader) fail(what string) { r.err = cmp.Or(r.err, r.e.refuse(what)) }

// shape adds the keywords to a shape, and reports whether any value remains.
func (r *reader) shape(s *shape) bool {
	switch s.kind {
	case number:
		return r.numbers(s)
	case text:
		r.texts(s)
		return s.maxLength < 0 || s.minLength <= s.maxLength
	case array:
		r.arrays(s)
		return s.maxItems < 0 || s.minItems <= s.maxItems
	case dict:
		r.dicts(s)
		return s.maxProps < 0 || s.minProps <= s.maxProps
	}
	return true
}

// count reads a whole number, up to 1<<30, or returns otherwise.
func (r *reader) count(key string, otherwise int) int {
	n, ok := r.o.values[key].(json.Number)
	if !ok {
		return otherwise
	}
	x, _ := rational(n)
	if !x.Num().IsInt64() || x.Num().Int64() > 1<<30 {
		return 1 << 30
	}
	return int(x.Num().Int64())
}

// rational reads a number, nil for none.
func (r *reader) rational(key string) *big.Rat {
	n, ok := r.o.values[key].(json.Number)
	if !ok {
		return nil
	}
	x, ok := rational(n)
	if !ok {
		r.fail(key + ", which is no number that can be written out,")
		return nil
	}
	return x
}

func (r *reader) numbers(s *shape) bool {
	closed := numbers{low: r.rational("minimum"), lowOpen: r.o.values["exclusiveMinimum"] == true,
		high: r.rational("maximum"), highOpen: r.o.values["exclusiveMaximum"] == true}
	open := numbers{low: r.rational("exclusiveMinimum"), lowOpen: true,
		high: r.rational("exclusiveMaximum"), highOpen: true}
	if x := r.rational("multipleOf"); x != nil {
		open.multiples = []*big.Rat{x}
		if x.Sign() <= 0 {
			r.fail("multipleOf, which is not positive,")
			return false
		}
	}
	both, some := s.numbers.and(closed)
	all, possible := both.and(open)
	s.numbers = all
	return some && possible
}

func (r *reader) texts(s *shape) {
	s.minLength, s.maxLength = r.count("minLength", 0), r.count("maxLength", -1)
	if p, ok := r.o.values["pattern"].(string); ok {
		if m := r.search(p); m != nil {
			s.match = append(s.match, m)
		}
	}
	name, _ := r.o.values["format"].(string)
	if name == "regex" { // groups nest without a bound
		r.fail("format regex")
	}
	if format := compiledFormats[name]; format != nil {
		m, err := format()
		if err != nil {
			r.fail("format " + name)
		}
		s.match = append(s.match, m)
	}
}

// search returns the automaton of a pattern.
func (r *reader) search(p string) *grammar.DFA {
	if m := r.d.search[p]; m != nil {
		return m
	}
	m, err := grammar.Search(p, r.d.budget)
	if err != nil {
		r.fail(fmt.Sprintf("pattern %.60q (%v)", p, err))
		return nil
	}
	r.d.search[p] = m
	return m
}

func (r *reader) arrays(s *shape) {
	s.minItems, s.maxItems = r.count("minItems", 0), r.count("maxItems", -1)
	rest := "items"
	for _, k := range []string{"prefixItems", "items"} {
		if k == "prefixItems" && r.d.draft > 0 && r.d.draft < 2020 {
			continue // unknown there
		}
		list := r.d.list(r.e, r.o, k)
		s.prefix = append(s.prefix, list...)
		if list != nil && k == "items" {
			rest = "additionalItems"
			if r.d.draft == 2020 {
				r.fail("items, which is no schema,")
			}
		}
	}
	s.items = cmp.Or(r.d.part(r.e, r.o, rest), s.items)
	if x := r.d.part(r.e, r.o, "contains"); x != nil {
		s.some = append(s.some, x)
	}
	if r.o.values["uniqueItems"] == true {
		s.distinct, s.distinctReadsFrom = true, r.e.at
	}
}

func (r *reader) dicts(s *shape) {
	s.minProps, s.maxProps = r.count("minProperties", 0), r.count("maxProperties", -1)
	s.props = map[string]*expr{}
	if props, ok := r.o.values["properties"].(*object); ok {
		for _, k := range props.keys {
			s.keys = append(s.keys, k)
			s.props[k] = r.d.sub(step(step(r.e.at, "properties"), k), props.values[k])
		}
	}
	list, _ := r.o.values["required"].([]any)
	s.required = namesIn(list)
	one := rule{rest: cmp.Or(r.d.part(r.e, r.o, "additionalProperties"), anything)}
	if patterns, ok := r.o.values["patternProperties"].(*object); ok {
		for _, p := range patterns.keys {
			m := r.search(p)
			if m == nil {
				return
			}
			value := r.d.sub(step(step(r.e.at, "patternProperties"), p), patterns.values[p])
			one.patterns = append(one.patterns, pattern{m, value})
			for _, k := range s.keys {
				if m.Match(k) {
					s.props[k] = both(s.props[k], value)
				}
			}
		}
	}
	if one.rest != anything || len(one.patterns) > 0 {
		s.rules = []rule{one}
	}
	if x := r.d.part(r.e, r.o, "propertyNames"); x != nil {
		s.names = []*expr{x}
	}
}

// namesIn returns the set of the texts in a list.
func namesIn(list []any) map[string]bool {
	set := map[string]bool{}
	for _, k := range list {
		if name, ok := k.(string); ok {
			set[name] = true
		}
	}
	return set
}
