package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"

	"unmask/grammar"
)

// keywordReader reads the keywords of a schema into shapes. Its methods that add to a shape return
// false where the shape has no values.
type keywordReader struct {
	doc      *document
	schema   *expr
	keywords *object

	// err is the first error.
	err error
}

// fail keeps the first error: a feature that is not supported.
func (r *keywordReader) fail(feature string) {
	if r.err == nil {
		r.err = r.schema.unsupported(feature)
	}
}

// readShape adds the keywords for a shape's kind to it, and reports whether any value remains.
func (r *keywordReader) readShape(s *shape) bool {
	switch s.kind {
	case numberKind:
		return r.readNumbers(s)
	case textKind:
		r.readTexts(s)
		return s.maxLength < 0 || s.minLength <= s.maxLength
	case arrayKind:
		r.readArrays(s)
		return s.maxItems < 0 || s.minItems <= s.maxItems
	case objectKind:
		r.readObjects(s)
		return s.maxKeys < 0 || s.minKeys <= s.maxKeys
	}
	return true
}

// readCount reads a whole number, or returns another one where the keyword is missing. Counts above
// 1<<30 are read as that: no automaton counts so far.
func (r *keywordReader) readCount(keyword string, otherwise int) int {
	n, ok := r.keywords.values[keyword].(json.Number)
	if !ok {
		return otherwise
	}
	x, _ := parseNumber(n)
	if !x.Num().IsInt64() || x.Num().Int64() > 1<<30 {
		return 1 << 30
	}
	return int(x.Num().Int64())
}

// readNumber reads a number, nil for none.
func (r *keywordReader) readNumber(keyword string) *big.Rat {
	n, ok := r.keywords.values[keyword].(json.Number)
	if !ok {
		return nil
	}
	x, ok := parseNumber(n)
	if !ok {
		r.fail(keyword + ", which is no number that can be written out,")
		return nil
	}
	return x
}

// readNumbers reads bounds in both of their forms: in draft 4 exclusiveMinimum is a flag of
// minimum, later it is a bound of its own.
func (r *keywordReader) readNumbers(s *shape) bool {
	closed := numbers{
		low:      r.readNumber("minimum"),
		lowOpen:  r.keywords.values["exclusiveMinimum"] == true,
		high:     r.readNumber("maximum"),
		highOpen: r.keywords.values["exclusiveMaximum"] == true,
	}
	open := numbers{
		low:      r.readNumber("exclusiveMinimum"),
		lowOpen:  true,
		high:     r.readNumber("exclusiveMaximum"),
		highOpen: true,
	}
	if x := r.readNumber("multipleOf"); x != nil {
		open.multiplesOf = []*big.Rat{x}
		if x.Sign() <= 0 {
			r.fail("multipleOf, which is not positive,")
			return false
		}
	}
	inClosed, closedPossible := s.numbers.intersect(closed)
	inBoth, bothPossible := inClosed.intersect(open)
	s.numbers = inBoth
	return closedPossible && bothPossible
}

// readTexts reads the keywords of texts into s.
func (r *keywordReader) readTexts(s *shape) {
	s.minLength = r.readCount("minLength", 0)
	s.maxLength = r.readCount("maxLength", -1)
	if expression, ok := r.keywords.values["pattern"].(string); ok {
		if m := r.compilePattern(expression); m != nil {
			s.matching = append(s.matching, m)
		}
	}
	name, _ := r.keywords.values["format"].(string)
	if name == "regex" { // groups nest without a bound, which no automaton can follow
		r.fail("format regex")
	}
	if format := compiledFormats[name]; format != nil {
		m, err := format()
		if err != nil {
			r.fail("format " + name)
		}
		s.matching = append(s.matching, m)
	}
}

// compilePattern returns the automaton of a pattern, nil after an error. Each is compiled once:
// many keys of a schema may have the same.
func (r *keywordReader) compilePattern(expression string) *grammar.DFA {
	if m := r.doc.patterns[expression]; m != nil {
		return m
	}
	m, err := grammar.Search(expression, r.doc.budget)
	if err != nil {
		r.fail(fmt.Sprintf("pattern %.60q (%v)", expression, err))
		return nil
	}
	r.doc.patterns[expression] = m
	return m
}

// readArrays reads the keywords of arrays. Until 2019-09 a list in items is for the first items and
// additionalItems for those after; in 2020-12 these are prefixItems and items. A document that does
// not say its draft may use either.
func (r *keywordReader) readArrays(s *shape) {
	s.minItems = r.readCount("minItems", 0)
	s.maxItems = r.readCount("maxItems", -1)
	otherItems := "items"
	for _, k := range []string{"prefixItems", "items"} {
		if k == "prefixItems" && r.doc.draft > 0 && r.doc.draft < 2020 {
			continue // unknown there
		}
		list := r.doc.subschemas(r.schema, r.keywords, k)
		s.prefix = append(s.prefix, list...)
		if list != nil && k == "items" {
			otherItems = "additionalItems"
			if r.doc.draft == 2020 {
				r.fail("items, which is no schema,")
			}
		}
	}
	s.items = cmp.Or(r.doc.subschema(r.schema, r.keywords, otherItems), s.items)
	if x := r.doc.subschema(r.schema, r.keywords, "contains"); x != nil {
		s.arrays.contains = append(s.arrays.contains, x)
	}
	if r.keywords.values["uniqueItems"] == true {
		s.unique = true
		s.uniquePointer = r.schema.pointer
	}
}

// readObjects reads the keywords of objects.
func (r *keywordReader) readObjects(s *shape) {
	s.minKeys = r.readCount("minProperties", 0)
	s.maxKeys = r.readCount("maxProperties", -1)
	s.properties = map[string]*expr{}
	if properties, ok := r.keywords.values["properties"].(*object); ok {
		parent := appendPointer(r.schema.pointer, "properties")
		for _, k := range properties.keys {
			s.keys = append(s.keys, k)
			s.properties[k] = r.doc.schemaAt(appendPointer(parent, k), properties.values[k])
		}
	}
	list, _ := r.keywords.values["required"].([]any)
	s.required = textSet(list)
	if !r.readRule(s) {
		return
	}
	if x := r.doc.subschema(r.schema, r.keywords, "propertyNames"); x != nil {
		s.keySchemas = []*expr{x}
	}
}

// readRule reads what keys may hold beyond properties, and adds the patterns to those that match
// named keys. It returns false after an error.
func (r *keywordReader) readRule(s *shape) bool {
	additional := r.doc.subschema(r.schema, r.keywords, "additionalProperties")
	unnamed := rule{fallback: cmp.Or(additional, anything)}
	if patterns, ok := r.keywords.values["patternProperties"].(*object); ok {
		parent := appendPointer(r.schema.pointer, "patternProperties")
		for _, expression := range patterns.keys {
			m := r.compilePattern(expression)
			if m == nil {
				return false
			}
			pointer := appendPointer(parent, expression)
			value := r.doc.schemaAt(pointer, patterns.values[expression])
			unnamed.patterns = append(unnamed.patterns, pattern{m, value})
			for _, k := range s.keys { // for named keys too, a pattern counts beside properties
				if m.Match(k) {
					s.properties[k] = intersect(s.properties[k], value)
				}
			}
		}
	}
	if unnamed.fallback != anything || len(unnamed.patterns) > 0 {
		s.rules = []rule{unnamed}
	}
	return true
}

// textSet returns the set of the texts in a list.
func textSet(list []any) map[string]bool {
	set := map[string]bool{}
	for _, v := range list {
		if t, ok := v.(string); ok {
			set[t] = true
		}
	}
	return set
}
