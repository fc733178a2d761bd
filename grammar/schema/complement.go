package schema

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
)

// complement returns the shapes of all values that are not in s.
func complement(s *shape) ([]*shape, error) {
	list := allBut(s.kind)
	add := func(change func(*shape)) {
		o := every(s.kind)
		change(o)
		list = append(list, o)
	}
	var err error
	switch s.kind {
	case boolean:
		if s.only != nil {
			add(func(o *shape) { v := !*s.only; o.only = &v })
		}
	case number:
		err = s.numbers.complement(add)
	case text:
		s.texts.complement(add)
	case array:
		err = s.arrays.complement(add)
	case dict:
		err = s.dicts.complement(add)
	}
	return list, err
}

func (a numbers) complement(add func(func(*shape))) error {
	values := slices.SortedFunc(slices.Values(a.values), (*big.Rat).Cmp)
	for i := range len(values) + 1 { // what is between them
		if len(values) == 0 {
			break
		}
		add(func(o *shape) {
			o.lowOpen, o.highOpen = i > 0, i < len(values)
			if o.lowOpen {
				o.low = values[i-1]
			}
			if o.highOpen {
				o.high = values[i]
			}
		})
	}
	if a.low != nil {
		add(func(o *shape) { o.high, o.highOpen = a.low, !a.lowOpen })
	}
	if a.high != nil {
		add(func(o *shape) { o.low, o.lowOpen = a.high, !a.highOpen })
	}
	if a.whole {
		add(func(o *shape) { o.broken = true })
	}
	if a.broken {
		add(func(o *shape) { o.whole = true })
	}
	if len(a.multiples) > 0 {
		return fmt.Errorf("not of multipleOf")
	}
	return nil
}

func (a texts) complement(add func(func(*shape))) {
	if a.in != nil {
		add(func(o *shape) { o.out = a.in })
	}
	if len(a.out) > 0 {
		add(func(o *shape) { o.in = a.out })
	}
	if a.minLength > 0 {
		add(func(o *shape) { o.maxLength = a.minLength - 1 })
	}
	if a.maxLength >= 0 {
		add(func(o *shape) { o.minLength = a.maxLength + 1 })
	}
	for i := range a.match {
		add(func(o *shape) { o.not = a.match[i : i+1] })
	}
	for i := range a.not {
		add(func(o *shape) { o.match = a.not[i : i+1] })
	}
}

func (a arrays) complement(add func(func(*shape))) error {
	if a.distinct || len(a.some) > 1 {
		return fmt.Errorf("not of uniqueItems or contains")
	}
	if a.minItems > 0 {
		add(func(o *shape) { o.maxItems = a.minItems - 1 })
	}
	if a.maxItems >= 0 {
		add(func(o *shape) { o.minItems = a.maxItems + 1 })
	}
	for i, e := range a.prefix {
		if e == anything {
			continue
		}
		add(func(o *shape) {
			for range i {
				o.prefix = append(o.prefix, anything)
			}
			o.prefix, o.minItems = append(o.prefix, other(e)), i+1
		})
	}
	for _, e := range a.some {
		add(func(o *shape) { o.items = other(e) })
	}
	switch {
	case a.items == anything:
	case len(a.prefix) == 0:
		add(func(o *shape) { o.some = []*expr{other(a.items)} })
	case a.items == nothing:
		add(func(o *shape) { o.minItems = len(a.prefix) + 1 })
	default:
		return fmt.Errorf("not of items after prefixItems")
	}
	return nil
}

func (a dicts) complement(add func(func(*shape))) error {
	for _, k := range slices.Sorted(maps.Keys(a.required)) {
		add(func(o *shape) { o.keys, o.props = []string{k}, map[string]*expr{k: nothing} })
	}
	for _, k := range a.keys {
		if e := a.props[k]; e != anything {
			add(func(o *shape) {
				o.keys, o.props = []string{k}, map[string]*expr{k: other(e)}
				o.required = map[string]bool{k: true}
			})
		}
	}
	if a.minProps > 0 {
		add(func(o *shape) { o.maxProps = a.minProps - 1 })
	}
	if a.maxProps >= 0 {
		add(func(o *shape) { o.minProps = a.maxProps + 1 })
	}
	for _, r := range a.rules {
		switch {
		case r.rest == nothing && len(r.patterns) == 0:
			add(func(o *shape) { // with these keys as its own, so that no further key is one of them
				o.keys, o.props, o.beyond = a.keys, map[string]*expr{}, [][]string{a.keys}
				for _, k := range a.keys {
					o.props[k] = anything
				}
			})
		case r.rest != anything || len(r.patterns) > 0:
			return fmt.Errorf("not of additionalProperties or patternProperties")
		}
	}
	if len(a.names) > 0 || len(a.beyond) > 0 {
		return fmt.Errorf("not of propertyNames")
	}
	return nil
}
