package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"unmask/grammar"
)

// addObject adds objects. Where the keys that the schema does not name are few, each comes at most
// once, like those that it names; JSON's duplicate keys can be kept out in no other case.
func (w *walker) addObject(source, target int32, s *objects) (possible bool, err error) {
	extras, err := w.extraKeySets(s)
	if err != nil {
		return false, err
	}
	few, extras := listFewKeys(extras)
	order := append(s.keyOrder(), few...)
	if len(s.mustExceed) == 0 {
		return w.addKeys(source, target, s, order, extras, false)
	}
	if len(s.mustExceed) > 1 {
		return false, &UnsupportedError{Feature: "not of additionalProperties more than once"}
	}

	// Some key must be outside of a list. One alternative is made for each key that may be it.
	addAlternative := func(alternative *objects, needsExtra bool) error {
		in := w.sink.AddState()
		out := w.sink.AddState()
		ok, err := w.addKeys(in, out, alternative, order, extras, needsExtra)
		if ok && err == nil {
			w.sink.AddEmpty(source, in)
			w.sink.AddEmpty(out, target)
			possible = true
		}
		return err
	}
	for _, k := range slices.Concat(s.keys, few) {
		if slices.Contains(s.mustExceed[0], k) {
			continue
		}
		alternative := *s
		alternative.mustExceed = nil
		alternative.required = maps.Clone(s.required)
		alternative.required[k] = true
		if err := addAlternative(&alternative, false); err != nil {
			return false, err
		}
	}
	if !s.isClosed() {
		err = addAlternative(s, true)
	}
	return possible, err
}

// nameAllowed reports whether propertyNames allows a key.
func (w *walker) nameAllowed(s *objects, key string) (bool, error) {
	for _, e := range s.keySchemas {
		list, err := intersect(e, exprOfValue(key)).shapes()
		if err != nil || len(list) == 0 {
			return false, err
		}
	}
	return true, nil
}

// keyCounts returns the least and the most keys of an object where they say something, 0 and -1
// otherwise, and spends the work on the states that count them. named is the number of keys with a
// place in the order, and hasExtras whether other keys may follow.
func (w *walker) keyCounts(s *objects, named int, hasExtras bool) (minKeys, maxKeys int,
	err error) {
	minKeys = s.minKeys
	maxKeys = s.maxKeys
	if minKeys <= len(s.required) {
		minKeys = 0
	}
	if maxKeys >= named && !hasExtras {
		maxKeys = -1
	}
	if minKeys > 1 && hasExtras { // one key may come twice there, and would count as two
		return 0, 0, &UnsupportedError{Feature: "minProperties above 1 with keys that are not named"}
	}
	counts := max(1, minKeys, maxKeys)
	if counts > w.budget.States() {
		return 0, 0, &grammar.TooLargeError{Limit: w.budget.States()}
	}
	return minKeys, maxKeys, w.budget.Spend(counts * (2 + named))
}

// addKeys adds objects with keys in an order and then extra ones; with needsExtra, at least one of
// these. A row has the states after the same keys of the order, by the number of keys in the
// object; numbers from the last that matters on share a state.
func (w *walker) addKeys(source, target int32, s *objects, order []string, extras []extraKeys,
	needsExtra bool) (bool, error) {
	minKeys, maxKeys, err := w.keyCounts(s, len(order), len(extras) > 0)
	if err != nil {
		return false, err
	}
	rowLength := max(1, minKeys, maxKeys) + 1
	row := addStates(w.sink, rowLength)
	w.sink.AddEmpty(w.sink.AddText(source, "{"), row[0])
	for _, k := range order {
		ok, err := w.nameAllowed(s, k)
		next := addStates(w.sink, rowLength)
		if ok && err == nil {
			ok, err = w.addKey(row, next, maxKeys, func(in, out int32) (bool, error) {
				return w.add(w.sink.AddText(in, quoteText(k)+w.colon), out, s.valueSchema(k))
			})
		}
		if err != nil {
			return false, err
		}
		if !ok { // no value satisfies the key's schema, or its name is forbidden
			if s.required[k] {
				return false, nil
			}
			continue
		}
		if !s.required[k] { // it may be left out
			w.joinRows(row, next)
		}
		row = next
	}

	end := w.sink.AddState()
	w.sink.AddEmpty(w.sink.AddText(end, "}"), target)
	addEnd := func(row []int32) {
		for n, state := range row {
			if n >= minKeys && (maxKeys < 0 || n <= maxKeys) {
				w.sink.AddEmpty(state, end)
			}
		}
	}
	if !needsExtra {
		addEnd(row)
	}
	possible := false
	if len(extras) > 0 {
		afterExtra := addStates(w.sink, rowLength)
		addEnd(afterExtra)
		possible, err = w.addExtraKeys(row, afterExtra, maxKeys, extras)
		if err != nil {
			return false, err
		}
	}
	return possible || !needsExtra, nil
}

// joinRows leads from each state of a row to that of another without reading.
func (w *walker) joinRows(source, target []int32) {
	for n, state := range source {
		w.sink.AddEmpty(state, target[n])
	}
}

// addExtraKeys adds any number of keys that the schema does not name. After each of them the states
// are those of afterExtra, from which the next one begins like the first.
func (w *walker) addExtraKeys(row, afterExtra []int32, maxKeys int, extras []extraKeys) (
	possible bool, err error) {
	w.joinRows(afterExtra, row)
	for _, extra := range extras {
		ok, err := w.addKey(row, afterExtra, maxKeys, func(in, out int32) (bool, error) {
			colon := w.sink.AddState()
			w.sink.Embed(in, colon, extra.keys)
			return w.add(w.sink.AddText(colon, w.colon), out, extra.value)
		})
		if err != nil {
			return false, err
		}
		possible = possible || ok
	}
	return possible, nil
}

// addKey adds one more key with its value after each number of keys; addPair adds the two between
// two states. Numbers that are not told apart afterwards share the pair.
func (w *walker) addKey(row, next []int32, maxKeys int,
	addPair func(in, out int32) (bool, error)) (possible bool, err error) {
	last := len(row) - 1
	for n := range last {
		if maxKeys >= 0 && n >= maxKeys {
			continue
		}
		in := w.sink.AddState()
		if n == 0 {
			w.sink.AddEmpty(row[0], in)
		} else {
			w.sink.AddEmpty(w.sink.AddText(row[n], w.comma), in)
		}
		if n == last-1 && maxKeys < 0 {
			// More keys than are counted go on as the last number that is.
			w.sink.AddEmpty(w.sink.AddText(row[last], w.comma), in)
		}
		ok, err := addPair(in, next[n+1])
		if err != nil {
			return false, err
		}
		possible = possible || ok
	}
	return possible, nil
}

// extraKeys is a set of keys that the schema does not name, with the schema of their values.
type extraKeys struct {
	keys  *grammar.DFA // as JSON strings
	value *expr
}

// maxPatterns bounds the patterns of an object's keys: any set of them may match a key.
const maxPatterns = 6

// extraKeySets returns the keys that the schema does not name, one set for each set of patterns
// that match them, because the patterns that match decide what the value may be.
func (w *walker) extraKeySets(s *objects) (list []extraKeys, err error) {
	var patterns []pattern
	ruleOf := []int{} // each pattern's
	for i, r := range s.rules {
		for _, p := range r.patterns {
			patterns = append(patterns, p)
			ruleOf = append(ruleOf, i)
		}
	}
	if len(patterns) > maxPatterns {
		return nil, &UnsupportedError{Feature: "patternProperties of more than 6 patterns"}
	}

	unnamed := texts{maxLength: -1, excluded: slices.Clip(s.keys)}
	for k := range s.required {
		if _, ok := s.properties[k]; !ok {
			unnamed.excluded = append(unnamed.excluded, k)
		}
	}
	for set := range 1 << len(patterns) { // bit i: pattern i matches
		key := unnamed
		value := anything
		ruleMatches := make([]bool, len(s.rules))
		for i, p := range patterns {
			if set>>i&1 == 1 {
				value = intersect(value, p.value)
				ruleMatches[ruleOf[i]] = true
				key.matching = append(slices.Clip(key.matching), p.match)
			} else {
				key.notMatching = append(slices.Clip(key.notMatching), p.match)
			}
		}
		for i, r := range s.rules {
			if !ruleMatches[i] {
				value = intersect(value, r.fallback)
			}
		}
		shapes, err := value.shapes()
		if err != nil {
			return nil, err
		}
		if len(shapes) == 0 {
			continue
		}
		keys, err := w.keyAutomaton(s, &key)
		if err != nil {
			return nil, err
		}
		if !keys.Empty() {
			list = append(list, extraKeys{keys, value})
		}
	}
	return list, nil
}

// maxFew is the most keys of an object without names of which each has a place of its own.
const maxFew = 32

// listFewKeys returns the keys of all sets, sorted, if there are at most maxFew. Otherwise it
// returns the sets as they are.
func listFewKeys(sets []extraKeys) (keys []string, remaining []extraKeys) {
	for _, set := range sets {
		quoted, ok := set.keys.ListTexts(maxFew - len(keys))
		if !ok {
			return nil, sets
		}
		var texts []string
		if json.Unmarshal([]byte("["+strings.Join(quoted, ",")+"]"), &texts) != nil {
			return nil, sets
		}
		keys = append(keys, texts...)
	}
	slices.Sort(keys)
	return keys, nil
}

// keyAutomaton returns the keys that are in t and that propertyNames allows, as JSON strings.
func (w *walker) keyAutomaton(s *objects, t *texts) (*grammar.DFA, error) {
	if len(s.keySchemas) == 0 {
		return w.textAutomaton(t)
	}
	inTexts := allOfKind(textKind)
	inTexts.texts = *t
	e := &expr{constant: []*shape{inTexts}}
	for _, keySchema := range s.keySchemas {
		e = intersect(e, keySchema)
	}
	return w.automaton(e)
}

// keyOrder returns the keys that come first, in their order: those that the schema names and then,
// sorted, those that it only requires.
func (s *objects) keyOrder() []string {
	keys := slices.Clone(s.keys)
	for _, k := range slices.Sorted(maps.Keys(s.required)) {
		if _, ok := s.properties[k]; !ok {
			keys = append(keys, k)
		}
	}
	return keys
}
