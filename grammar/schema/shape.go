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
	nullKind kind = iota
	booleanKind
	numberKind
	textKind
	arrayKind
	objectKind
	kindCount
)

// shape is a set of values of one kind. A schema is a union of shapes, so that schemas can be
// intersected, and subtracted from each other, before anything becomes an automaton: what is left
// of allOf and not is mostly small, while the automata of its parts may be large.
type shape struct {
	kind kind

	// Of these, the one of the kind counts.
	bools
	numbers
	texts
	arrays
	objects

	// definitions are the recursive definitions that the shape was made from.
	definitions []*expr
}

// bools are true and false or, if only is not nil, the one it has.
type bools struct{ only *bool }

// numbers is a list of numbers or an interval.
type numbers struct {
	// listed are the numbers; nil for an interval, which the other fields describe.
	listed []*big.Rat

	// low and high are the bounds, nil for none. An open bound is outside itself.
	low, high         *big.Rat
	lowOpen, highOpen bool

	// wholeOnly leaves out fractions and fractionsOnly whole numbers.
	wholeOnly, fractionsOnly bool

	// multiplesOf are numbers of all of which the values are multiples.
	multiplesOf []*big.Rat
}

// texts is a list of texts or a set of them by rules.
type texts struct {
	// allowed are the texts; nil for any that the other fields allow.
	allowed  []string
	excluded []string

	// minLength and maxLength are in characters; a maxLength of -1 is no bound.
	minLength, maxLength int

	// A text is in all automata of matching and in none of notMatching.
	matching, notMatching []*grammar.DFA
}

type arrays struct {
	prefix []*expr // of the first items
	items  *expr   // of those after them

	// minItems and maxItems count all items; a maxItems of -1 is no bound.
	minItems, maxItems int

	// contains are schemas each of which some item satisfies.
	contains []*expr

	// unique forbids equal items. uniquePointer is the place in the document that does.
	unique        bool
	uniquePointer string
}

type objects struct {
	keys       []string // that the schema names, in its order
	properties map[string]*expr
	required   map[string]bool

	// rules say what other keys may hold; all apply.
	rules []rule

	// keySchemas are schemas that each key satisfies, as a text.
	keySchemas []*expr

	// minKeys and maxKeys count all keys; a maxKeys of -1 is no bound.
	minKeys, maxKeys int

	// mustExceed are lists of keys beyond each of which an object has some key. Such a list comes
	// from the negation of a schema without additional properties.
	mustExceed [][]string
}

// rule says what keys may hold that the schema does not name: what the patterns that match say or,
// where none does, the fallback.
type rule struct {
	patterns []pattern
	fallback *expr
}

type pattern struct {
	match *grammar.DFA
	value *expr
}

// allOfKind returns the shape of all values of a kind.
func allOfKind(k kind) *shape {
	s := &shape{kind: k}
	s.maxLength = -1
	s.maxItems = -1
	s.maxKeys = -1
	s.items = anything
	return s
}

// allShapes returns the shapes of all values.
func allShapes() []*shape { return allShapesExcept(kindCount) }

// allShapesExcept returns the shapes of all values that are not of a kind.
func allShapesExcept(excluded kind) (list []*shape) {
	for k := range kindCount {
		if k != excluded {
			list = append(list, allOfKind(k))
		}
	}
	return list
}

// shapeOfValue returns the shape of one value, nil for a number that cannot be written out.
func shapeOfValue(v any) *shape {
	switch v := v.(type) {
	case bool:
		s := allOfKind(booleanKind)
		s.only = &v
		return s
	case json.Number:
		s := allOfKind(numberKind)
		x, ok := parseNumber(v)
		if !ok {
			return nil
		}
		s.listed = []*big.Rat{x}
		return s
	case string:
		s := allOfKind(textKind)
		s.allowed = []string{v}
		return s
	case []any:
		s := allOfKind(arrayKind)
		for _, item := range v {
			s.prefix = append(s.prefix, exprOfValue(item))
		}
		s.items = nothing
		s.minItems = len(v)
		s.maxItems = len(v)
		return s
	case *object:
		s := allOfKind(objectKind)
		s.properties = map[string]*expr{}
		s.required = map[string]bool{}
		s.rules = []rule{{fallback: nothing}} // no further key has a value
		for _, k := range v.keys {
			s.keys = append(s.keys, k)
			s.properties[k] = exprOfValue(v.values[k])
			s.required[k] = true
		}
		return s
	}
	return allOfKind(nullKind)
}

// intersectShapes returns the values of both shapes, nil if there are none.
func intersectShapes(a, b *shape) *shape {
	if a.kind != b.kind {
		return nil
	}
	s := allOfKind(a.kind)
	s.definitions = slices.Clone(a.definitions)
	for _, e := range b.definitions {
		if !slices.Contains(s.definitions, e) {
			s.definitions = append(s.definitions, e)
		}
	}
	possible := true
	switch a.kind {
	case booleanKind:
		s.only = a.only
		if b.only != nil {
			possible = a.only == nil || *a.only == *b.only
			s.only = b.only
		}
	case numberKind:
		s.numbers, possible = a.numbers.intersect(b.numbers)
	case textKind:
		s.texts, possible = a.texts.intersect(b.texts)
	case arrayKind:
		s.arrays, possible = a.arrays.intersect(b.arrays)
	case objectKind:
		s.objects, possible = a.objects.intersect(b.objects)
	}
	if !possible {
		return nil
	}
	return s
}

// cost is the work on a shape.
func (s *shape) cost() int {
	size := len(s.listed) + len(s.allowed) + len(s.excluded) + len(s.keys) + len(s.required) +
		len(s.prefix) + len(s.rules)
	return schemaCost + 8*size
}

// contains reports whether a number is one of those that the interval's fields describe.
func (a numbers) contains(x *big.Rat) bool {
	if a.low != nil {
		if c := x.Cmp(a.low); c < 0 || c == 0 && a.lowOpen {
			return false
		}
	}
	if a.high != nil {
		if c := x.Cmp(a.high); c > 0 || c == 0 && a.highOpen {
			return false
		}
	}
	if a.wholeOnly && !x.IsInt() || a.fractionsOnly && x.IsInt() {
		return false
	}
	return !slices.ContainsFunc(a.multiplesOf, func(m *big.Rat) bool {
		return !new(big.Rat).Quo(x, m).IsInt()
	})
}

// intersect returns the numbers of both sets, and false if it is seen that there are none.
func (a numbers) intersect(b numbers) (numbers, bool) {
	if a.listed == nil && b.listed != nil {
		a, b = b, a
	}
	if a.listed != nil {
		inB := map[string]bool{}
		for _, x := range b.listed {
			inB[x.String()] = true
		}
		s := numbers{listed: slices.DeleteFunc(slices.Clone(a.listed), func(x *big.Rat) bool {
			return b.listed != nil && !inB[x.String()] || !b.contains(x)
		})}
		return s, len(s.listed) > 0
	}

	s := a
	if isTighter(b.low, a.low, 1, b.lowOpen) {
		s.low = b.low
		s.lowOpen = b.lowOpen
	}
	if isTighter(b.high, a.high, -1, b.highOpen) {
		s.high = b.high
		s.highOpen = b.highOpen
	}
	s.wholeOnly = a.wholeOnly || b.wholeOnly
	s.fractionsOnly = a.fractionsOnly || b.fractionsOnly
	s.multiplesOf = slices.Concat(a.multiplesOf, b.multiplesOf)
	if s.wholeOnly && s.fractionsOnly {
		return s, false
	}
	if s.low != nil && s.high != nil {
		switch s.low.Cmp(s.high) {
		case 1:
			return s, false
		case 0: // one number, if the rest allows it
			isWhole := s.low.IsInt()
			if s.lowOpen || s.highOpen || s.wholeOnly && !isWhole || s.fractionsOnly && isWhole {
				return s, false
			}
		}
	}
	return s, true
}

// isTighter reports whether bound b leaves out more than bound a. Both are on one side of an
// interval: 1 for the lower one, -1 for the upper one. With open, b leaves itself out.
func isTighter(b, a *big.Rat, side int, open bool) bool {
	return b != nil && (a == nil || b.Cmp(a) == side || b.Cmp(a) == 0 && open)
}

// intersect returns the texts of both sets, and false if it is seen that there are none.
func (a texts) intersect(b texts) (texts, bool) {
	s := texts{
		allowed:     a.allowed,
		excluded:    slices.Concat(a.excluded, b.excluded),
		minLength:   max(a.minLength, b.minLength),
		maxLength:   tighterMax(a.maxLength, b.maxLength),
		matching:    slices.Concat(a.matching, b.matching),
		notMatching: slices.Concat(a.notMatching, b.notMatching),
	}
	if a.allowed == nil {
		s.allowed = b.allowed
	} else if b.allowed != nil {
		s.allowed = slices.DeleteFunc(slices.Clone(a.allowed), notIn(b.allowed))
	}
	if s.allowed != nil {
		s = s.applyRulesToList()
		return s, len(s.allowed) > 0
	}
	return s, s.maxLength < 0 || s.minLength <= s.maxLength
}

// applyRulesToList returns the list of texts reduced to those that the other rules allow, which a
// list then does not need any more.
func (a texts) applyRulesToList() texts {
	rules := a
	rules.allowed = nil
	rules.excluded = nil // notIn is faster for long lists
	notExcluded := notIn(a.excluded)
	list := slices.DeleteFunc(slices.Clone(a.allowed), func(x string) bool {
		return !notExcluded(x) || !rules.contains(x)
	})
	return texts{maxLength: -1, allowed: list}
}

// notIn returns a function that reports whether a text is not in a list.
func notIn(list []string) func(string) bool {
	set := make(map[string]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return func(x string) bool { return !set[x] }
}

// tighterMax returns the lower of two upper bounds, of which -1 is none.
func tighterMax(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// intersect returns the arrays of both sets, and false if it is seen that there are none.
func (a arrays) intersect(b arrays) (arrays, bool) {
	s := arrays{
		items:         intersect(a.items, b.items),
		minItems:      max(a.minItems, b.minItems),
		maxItems:      tighterMax(a.maxItems, b.maxItems),
		contains:      slices.Concat(a.contains, b.contains),
		unique:        a.unique || b.unique,
		uniquePointer: a.uniquePointer + b.uniquePointer,
	}
	for i := range max(len(a.prefix), len(b.prefix)) {
		s.prefix = append(s.prefix, intersect(a.itemSchema(i), b.itemSchema(i)))
	}
	return s, s.maxItems < 0 || s.minItems <= s.maxItems
}

// itemSchema returns the schema of item i.
func (a arrays) itemSchema(i int) *expr {
	if i < len(a.prefix) {
		return a.prefix[i]
	}
	return a.items
}

// intersect returns the objects of both sets, and false if it is seen that there are none.
func (a objects) intersect(b objects) (objects, bool) {
	s := objects{
		properties: map[string]*expr{},
		required:   map[string]bool{},
		rules:      slices.Concat(a.rules, b.rules),
		keySchemas: slices.Concat(a.keySchemas, b.keySchemas),
		minKeys:    max(a.minKeys, b.minKeys),
		maxKeys:    tighterMax(a.maxKeys, b.maxKeys),
		mustExceed: slices.Concat(a.mustExceed, b.mustExceed),
	}
	for _, k := range slices.Concat(a.keys, b.keys) {
		if _, ok := s.properties[k]; !ok {
			s.keys = append(s.keys, k)
			s.properties[k] = intersect(a.valueSchema(k), b.valueSchema(k))
		}
	}
	maps.Copy(s.required, a.required)
	maps.Copy(s.required, b.required)
	possible := s.maxKeys < 0 || s.minKeys <= s.maxKeys && len(s.required) <= s.maxKeys
	return s, possible
}

// valueSchema returns the schema of a key's value.
func (a objects) valueSchema(key string) *expr {
	e, ok := a.properties[key]
	if ok {
		return e
	}
	e = anything
	for _, r := range a.rules {
		e = intersect(e, r.valueSchema(key))
	}
	return e
}

// valueSchema returns the schema of a key's value: all of the patterns that the key matches
// together, and the fallback only if there is none.
func (r rule) valueSchema(key string) *expr {
	e := anything
	matched := false
	for _, p := range r.patterns {
		if p.match.Match(key) {
			e = intersect(e, p.value)
			matched = true
		}
	}
	if !matched {
		return r.fallback
	}
	return e
}

// isClosed reports whether no keys but those named are allowed.
func (a objects) isClosed() bool {
	return slices.ContainsFunc(a.rules, func(r rule) bool {
		return r.fallback == nothing && len(r.patterns) == 0
	})
}
