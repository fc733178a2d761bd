package schema

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
)

// complementOf returns the shapes of all values that are not in s: those of other kinds and, for
// each rule of s, those of its kind that break the rule. Its errors continue "schema is".
func complementOf(s *shape) ([]*shape, error) {
	list := allShapesExcept(s.kind)
	add := func(restrict func(*shape)) {
		part := allOfKind(s.kind)
		restrict(part)
		list = append(list, part)
	}
	var err error
	switch s.kind {
	case booleanKind:
		if s.only != nil {
			add(func(part *shape) {
				v := !*s.only
				part.only = &v
			})
		}
	case numberKind:
		err = s.numbers.addComplement(add)
	case textKind:
		s.texts.addComplement(add)
	case arrayKind:
		err = s.arrays.addComplement(add)
	case objectKind:
		err = s.objects.addComplement(add)
	}
	return list, err
}

// addComplement calls add for each rule of the numbers, with a function that restricts all numbers
// to those that break it.
func (a numbers) addComplement(add func(restrict func(*shape))) error {
	if len(a.listed) > 0 {
		a.addGaps(add)
	}
	if a.low != nil {
		add(func(s *shape) {
			s.high = a.low
			s.highOpen = !a.lowOpen
		})
	}
	if a.high != nil {
		add(func(s *shape) {
			s.low = a.high
			s.lowOpen = !a.highOpen
		})
	}
	if a.wholeOnly {
		add(func(s *shape) { s.fractionsOnly = true })
	}
	if a.fractionsOnly {
		add(func(s *shape) { s.wholeOnly = true })
	}
	if len(a.multiplesOf) > 0 { // no rule of shapes says that a number is no multiple
		return fmt.Errorf("not of multipleOf")
	}
	return nil
}

// addGaps calls add for the intervals between listed numbers.
func (a numbers) addGaps(add func(restrict func(*shape))) {
	sorted := slices.SortedFunc(slices.Values(a.listed), (*big.Rat).Cmp)
	for i := range len(sorted) + 1 {
		add(func(s *shape) {
			if i > 0 {
				s.low = sorted[i-1]
				s.lowOpen = true
			}
			if i < len(sorted) {
				s.high = sorted[i]
				s.highOpen = true
			}
		})
	}
}

// addComplement calls add for each rule of the texts, as that of numbers does.
func (a texts) addComplement(add func(restrict func(*shape))) {
	if a.allowed != nil {
		add(func(s *shape) { s.excluded = a.allowed })
	}
	if len(a.excluded) > 0 {
		add(func(s *shape) { s.allowed = a.excluded })
	}
	if a.minLength > 0 {
		add(func(s *shape) { s.maxLength = a.minLength - 1 })
	}
	if a.maxLength >= 0 {
		add(func(s *shape) { s.minLength = a.maxLength + 1 })
	}
	for i := range a.matching {
		add(func(s *shape) { s.notMatching = a.matching[i : i+1] })
	}
	for i := range a.notMatching {
		add(func(s *shape) { s.matching = a.notMatching[i : i+1] })
	}
}

// addComplement calls add for each rule of the arrays, as that of numbers does.
func (a arrays) addComplement(add func(restrict func(*shape))) error {
	if a.unique || len(a.contains) > 1 {
		return fmt.Errorf("not of uniqueItems or contains")
	}
	if a.minItems > 0 {
		add(func(s *shape) { s.maxItems = a.minItems - 1 })
	}
	if a.maxItems >= 0 {
		add(func(s *shape) { s.minItems = a.maxItems + 1 })
	}
	for i, e := range a.prefix {
		if e == anything {
			continue
		}
		add(func(s *shape) {
			for range i {
				s.prefix = append(s.prefix, anything)
			}
			s.prefix = append(s.prefix, negate(e))
			s.minItems = i + 1
		})
	}
	for _, e := range a.contains { // no item satisfies it
		add(func(s *shape) { s.items = negate(e) })
	}
	switch {
	case a.items == anything:
	case len(a.prefix) == 0: // some item breaks the rule of all items
		add(func(s *shape) { s.arrays.contains = []*expr{negate(a.items)} })
	case a.items == nothing:
		add(func(s *shape) { s.minItems = len(a.prefix) + 1 })
	default:
		return fmt.Errorf("not of items after prefixItems")
	}
	return nil
}

// addComplement calls add for each rule of the objects, as that of numbers does.
func (a objects) addComplement(add func(restrict func(*shape))) error {
	for _, k := range slices.Sorted(maps.Keys(a.required)) {
		add(func(s *shape) { s.forbidKey(k) })
	}
	for _, k := range a.keys {
		e := a.properties[k]
		if e == anything {
			continue
		}
		add(func(s *shape) {
			s.keys = []string{k}
			s.properties = map[string]*expr{k: negate(e)}
			s.required = map[string]bool{k: true}
		})
	}
	if a.minKeys > 0 {
		add(func(s *shape) { s.maxKeys = a.minKeys - 1 })
	}
	if a.maxKeys >= 0 {
		add(func(s *shape) { s.minKeys = a.maxKeys + 1 })
	}
	for _, r := range a.rules {
		switch {
		case r.fallback == nothing && len(r.patterns) == 0:
			// The keys are named here too, so that none of them counts as a further key.
			add(func(s *shape) {
				s.keys = a.keys
				s.properties = map[string]*expr{}
				for _, k := range a.keys {
					s.properties[k] = anything
				}
				s.mustExceed = [][]string{a.keys}
			})
		case r.fallback != anything || len(r.patterns) > 0:
			return fmt.Errorf("not of additionalProperties or patternProperties")
		}
	}
	if len(a.keySchemas) > 0 || len(a.mustExceed) > 0 {
		return fmt.Errorf("not of propertyNames")
	}
	return nil
}

// forbidKey makes an object's shape, which names no key yet, one without a key.
func (a *objects) forbidKey(key string) {
	a.keys = []string{key}
	a.properties = map[string]*expr{key: nothing}
}
