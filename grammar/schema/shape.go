package schema

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"

	"unmask/grammar"
)

// kind is a type of JSON values; integers are numbers.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	array
	dict // an object
	kinds
)

// shape is a set of values of one kind. A schema is a union of shapes, so that schemas can be
// intersected, and subtracted from each other, before anything becomes an automaton.
type shape struct {
	kind kind
	bools
	numbers
	texts
	arrays
	dicts
	via []*expr // the recursive definitions that it was made from
}

type bools struct{ only *bool }

// numbers is an interval. In whole, all numbers are integers; in broken, none is.
type numbers struct {
	values            []*big.Rat // nil: any within the bounds; otherwise there are none
	low, high         *big.Rat   // nil: none
	lowOpen, highOpen bool       // the bound itself is outside
	whole, broken     bool
	multiples         []*big.Rat
}

type texts struct {
	in         []string // nil: any
	out        []string
	minLength  int // characters
	maxLength  int // -1: any number
	match, not []*grammar.DFA
}

type arrays struct {
	prefix            []*expr
	items             *expr
	minItems          int
	maxItems          int // -1: any number
	some              []*expr
	distinct          bool
	distinctReadsFrom string
}

type dicts struct {
	keys     []string // in the order of the schema
	props    map[string]*expr
	required map[string]bool
	rules    []rule  // for other keys; all apply
	names    []*expr // which strings may be keys
	minProps int
	maxProps int        // -1: any number
	beyond   [][]string // of each list, some key is not in it
}

// rule says what other keys may hold: what the patterns that match say or, where none does, rest.
type rule struct {
	patterns []pattern
	rest     *expr
}

type pattern struct {
	match *grammar.DFA
	value *expr
}

// every returns the shape of all values of a kind.
func every(k kind) *shape {
	s := &shape{kind: k}
	s.maxLength, s.maxItems, s.maxProps = -1, -1, -1
	s.items = anything
	return s
}

// all returns the shapes of all values.
func all() []*shape { return allBut(kinds) }

// allBut returns the shapes of all values that are not of a kind.
func allBut(kind kind) (list []*shape) {
	for k := range kinds {
		if k != kind {
			list = append(list, every(k))
		}
	}
	return list
}

// exactly returns the shape of one value.
func exactly(v any) *shape {
	switch v := v.(type) {
	case bool:
		s := every(boolean)
		s.only = &v
		return s
	case json.Number:
		s := every(number)
		r, ok := rational(v)
		if !ok {
			return nil
		}
		s.values = []*big.Rat{r}
		return s
	case string:
		s := every(text)
		s.in = []string{v}
		return s
	case []any:
		s := every(array)
		for _, item := range v {
			s.prefix = append(s.prefix, constant(item))
		}
		s.items, s.minItems, s.maxItems = nothing, len(v), len(v)
		return s
	case *object:
		s := every(dict)
		s.props, s.required = map[string]*expr{}, map[string]bool{}
		s.rules = []rule{{rest: nothing}}
		for _, k := range v.keys {
			s.keys = append(s.keys, k)
			s.props[k], s.required[k] = constant(v.values[k]), true
		}
		return s
	}
	return every(null)
}

// and returns the values of both shapes, nil if there are none.
func and(a, b *shape) *shape {
	if a.kind != b.kind {
		return nil
	}
	s := every(a.kind)
	s.via = slices.Clone(a.via)
	for _, e := range b.via {
		if !slices.Contains(s.via, e) {
			s.via = append(s.via, e)
		}
	}
	possible := true
	switch a.kind {
	case boolean:
		s.only = a.only
		if b.only != nil {
			possible = a.only == nil || *a.only == *b.only
			s.only = b.only
		}
	case number:
		s.numbers, possible = a.numbers.and(b.numbers)
	case text:
		s.texts, possible = a.texts.and(b.texts)
	case array:
		s.arrays, possible = a.arrays.and(b.arrays)
	case dict:
		s.dicts, possible = a.dicts.and(b.dicts)
	}
	if !possible {
		return nil
	}
	return s
}

// holds reports whether a number is one of those described.
func (a numbers) holds(x *big.Rat) bool {
	low, high := 1, -1
	if a.low != nil {
		low = x.Cmp(a.low)
	}
	if a.high != nil {
		high = x.Cmp(a.high)
	}
	return (low > 0 || low == 0 && !a.lowOpen) && (high < 0 || high == 0 && !a.highOpen) &&
		!(a.whole && !x.IsInt()) && !(a.broken && x.IsInt()) &&
		!slices.ContainsFunc(a.multiples, func(m *big.Rat) bool {
			return !new(big.Rat).Quo(x, m).IsInt()
		})
}

func (a numbers) and(b numbers) (numbers, bool) {
	if a.values == nil && b.values != nil {
		a, b = b, a
	}
	if a.values != nil {
		listed := map[string]bool{}
		for _, x := range b.values {
			listed[x.String()] = true
		}
		s := numbers{values: slices.DeleteFunc(slices.Clone(a.values), func(x *big.Rat) bool {
			return b.values != nil && !listed[x.String()] || !b.holds(x)
		})}
		return s, len(s.values) > 0
	}
	s := a
	if tighter(b.low, a.low, 1, b.lowOpen) {
		s.low, s.lowOpen = b.low, b.lowOpen
	}
	if tighter(b.high, a.high, -1, b.highOpen) {
		s.high, s.highOpen = b.high, b.highOpen
	}
	s.whole, s.broken = a.whole || b.whole, a.broken || b.broken
	s.multiples = slices.Concat(a.multiples, b.multiples)
	if s.whole && s.broken {
		return s, false
	}
	if s.low != nil && s.high != nil {
		c := s.low.Cmp(s.high)
		if c > 0 || c == 0 && (s.lowOpen || s.highOpen || s.whole && !s.low.IsInt() ||
			s.broken && s.low.IsInt()) {
			return s, false
		}
	}
	return s, true
}

// tighter reports whether a bound on one side, 1 for the lower one, leaves out more than another.
func tighter(b, a *big.Rat, side int, open bool) bool {
	return b != nil && (a == nil || b.Cmp(a) == side || b.Cmp(a) == 0 && open)
}

func (a texts) and(b texts) (texts, bool) {
	s := texts{in: a.in, out: slices.Concat(a.out, b.out), minLength: max(a.minLength, b.minLength),
		maxLength: fewer(a.maxLength, b.maxLength), match: slices.Concat(a.match, b.match),
		not: slices.Concat(a.not, b.not)}
	if a.in == nil {
		s.in = b.in
	} else if b.in != nil {
		s.in = slices.DeleteFunc(slices.Clone(a.in), notIn(b.in))
	}
	if s.in != nil {
		s = s.listed()
	}
	return s, (s.in == nil || len(s.in) > 0) && (s.maxLength < 0 || s.minLength <= s.maxLength)
}

// listed returns texts with a list reduced to those that the other rules allow.
func (a texts) listed() texts {
	rest, free := a, notIn(a.out)
	rest.in, rest.out = nil, nil
	return texts{maxLength: -1, in: slices.DeleteFunc(slices.Clone(a.in), func(x string) bool {
		return !free(x) || !rest.has(x)
	})}
}

// notIn returns a function that reports whether a text is not in a list.
func notIn(list []string) func(string) bool {
	set := make(map[string]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return func(x string) bool { return !set[x] }
}

// work is the work on a shape.
func (s *shape) work() int {
	return partWork + 8*(len(s.values)+len(s.in)+len(s.out)+len(s.keys)+len(s.required)+
		len(s.prefix)+len(s.rules))
}

// fewer returns the lower of two bounds, of which -1 is none.
func fewer(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

func (a arrays) and(b arrays) (arrays, bool) {
	s := arrays{items: both(a.items, b.items), minItems: max(a.minItems, b.minItems),
		maxItems: fewer(a.maxItems, b.maxItems), some: slices.Concat(a.some, b.some),
		distinct: a.distinct || b.distinct, distinctReadsFrom: a.distinctReadsFrom + b.distinctReadsFrom}
	for i := range max(len(a.prefix), len(b.prefix)) {
		s.prefix = append(s.prefix, both(a.at(i), b.at(i)))
	}
	return s, s.maxItems < 0 || s.minItems <= s.maxItems
}

// at returns the schema of item i.
func (a arrays) at(i int) *expr {
	if i < len(a.prefix) {
		return a.prefix[i]
	}
	return a.items
}

func (a dicts) and(b dicts) (dicts, bool) {
	s := dicts{props: map[string]*expr{}, required: map[string]bool{},
		rules: slices.Concat(a.rules, b.rules), names: slices.Concat(a.names, b.names),
		minProps: max(a.minProps, b.minProps), maxProps: fewer(a.maxProps, b.maxProps),
		beyond: slices.Concat(a.beyond, b.beyond)}
	for _, k := range slices.Concat(a.keys, b.keys) {
		if _, ok := s.props[k]; !ok {
			s.keys = append(s.keys, k)
			s.props[k] = both(a.of(k), b.of(k))
		}
	}
	maps.Copy(s.required, a.required)
	maps.Copy(s.required, b.required)
	return s, s.maxProps < 0 || s.minProps <= s.maxProps && len(s.required) <= s.maxProps
}

// of returns the schema of a key's value.
func (a dicts) of(key string) *expr {
	e, ok := a.props[key]
	if ok {
		return e
	}
	e = anything
	for _, r := range a.rules {
		e = both(e, r.of(key))
	}
	return e
}

func (r rule) of(key string) *expr {
	e, matched := anything, false
	for _, p := range r.patterns {
		if p.match.Match(key) {
			e, matched = both(e, p.value), true
		}
	}
	if !matched {
		return r.rest
	}
	return e
}

// closed reports whether no keys but those named are allowed.
func (a dicts) closed() bool {
	return slices.ContainsFunc(a.rules, func(r rule) bool {
		return r.rest == nothing && len(r.patterns) == 0
	})
}
