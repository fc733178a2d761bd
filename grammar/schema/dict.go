package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"unmask/grammar"
)

// dict adds objects. Where the keys that are not named are few, each comes at most once, like those
// that are. Of lists of keys beyond which some key must be, one alternative is made for each key
// that may be it.
func (c *compiler) dict(b *grammar.Builder, from, to int32, s *dicts) (possible bool, err error) {
	others, err := c.others(s)
	if err != nil {
		return false, err
	}
	few, others := fewKeys(others)
	order := append(s.order(), few...)
	if len(s.beyond) == 0 {
		return c.keys(b, from, to, s, order, others, false)
	}
	if len(s.beyond) > 1 {
		return false, &UnsupportedError{Feature: "not of additionalProperties more than once"}
	}
	alternative := func(one *dicts, more bool) error {
		in, out := b.AddState(), b.AddState()
		ok, err := c.keys(b, in, out, one, order, others, more)
		if ok && err == nil {
			b.AddEmpty(from, in)
			b.AddEmpty(out, to)
			possible = true
		}
		return err
	}
	for _, k := range slices.Concat(s.keys, few) {
		if !slices.Contains(s.beyond[0], k) {
			one := *s
			one.beyond, one.required = nil, maps.Clone(s.required)
			one.required[k] = true
			if err := alternative(&one, false); err != nil {
				return false, err
			}
		}
	}
	if !s.closed() {
		err = alternative(s, true)
	}
	return possible, err
}

// named reports whether propertyNames allows a key.
func (c *compiler) named(s *dicts, key string) (bool, error) {
	for _, e := range s.names {
		list, err := both(e, constant(key)).union()
		if err != nil || len(list) == 0 {
			return false, err
		}
	}
	return true, nil
}

// numbers returns the least and the most keys where they matter, 0 and -1 otherwise, for an object
// of this many named keys, and pays for their states.
func (c *compiler) numbers(s *dicts, named int, others bool) (least, most int, err error) {
	least, most = s.minProps, s.maxProps
	if least <= len(s.required) {
		least = 0
	}
	if most >= named && !others {
		most = -1
	}
	if least > 1 && others {
		return 0, 0, &UnsupportedError{Feature: "minProperties above 1 with keys that are not named"}
	}
	counts := max(1, least, most)
	if counts > c.budget.States() {
		return 0, 0, &grammar.TooLargeError{Limit: c.budget.States()}
	}
	return least, most, c.budget.Spend(counts * (2 + named))
}

// keys adds objects with keys in an order and then others. A state is known by the keys that may
// follow and the number of those before, up to the last number that matters. With more, there must
// be others.
func (c *compiler) keys(b *grammar.Builder, from, to int32, s *dicts, order []string,
	others []further, more bool) (bool, error) {
	least, most, err := c.numbers(s, len(order), len(others) > 0)
	if err != nil {
		return false, err
	}
	counts := max(1, least, most)
	row := func() []int32 { return states(b, counts+1) }
	at := row()
	b.AddEmpty(b.AddText(from, "{"), at[0])
	for _, k := range order {
		ok, err := c.named(s, k)
		next := row()
		if ok && err == nil {
			ok, err = c.enter(b, at, next, most, func(in, out int32) (bool, error) {
				return c.add(b, b.AddText(in, quote(k)+c.colon), out, s.of(k))
			})
		}
		switch {
		case err != nil:
			return false, err
		case !ok && s.required[k]:
			return false, nil
		case !ok:
			continue
		}
		if !s.required[k] {
			join(b, at, next)
		}
		at = next
	}
	end := b.AddState()
	b.AddEmpty(b.AddText(end, "}"), to)
	finish := func(at []int32) {
		for n, state := range at {
			if n >= least && (most < 0 || n <= most) {
				b.AddEmpty(state, end)
			}
		}
	}
	if !more {
		finish(at)
	}
	possible := false
	if len(others) > 0 {
		after := row()
		finish(after)
		if possible, err = c.further(b, at, after, most, others); err != nil {
			return false, err
		}
	}
	return possible || !more, nil
}

// states returns n new states.
func states(b *grammar.Builder, n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = b.AddState()
	}
	return list
}

// join makes each state of a row that of another.
func join(b *grammar.Builder, from, to []int32) {
	for n, state := range from {
		b.AddEmpty(state, to[n])
	}
}

// further adds keys that are not named, any number of them: after each the states are again at.
func (c *compiler) further(b *grammar.Builder, at, after []int32, most int,
	others []further) (possible bool, err error) {
	join(b, after, at)
	for _, o := range others {
		ok, err := c.enter(b, at, after, most, func(in, out int32) (bool, error) {
			colon := b.AddState()
			b.Embed(in, colon, o.key)
			return c.add(b, b.AddText(colon, c.colon), out, o.value)
		})
		if err != nil {
			return false, err
		}
		possible = possible || ok
	}
	return possible, nil
}

// enter adds one more key with its value after each number of keys. The value is shared by numbers
// that are not told apart afterwards.
func (c *compiler) enter(b *grammar.Builder, at, next []int32, most int,
	add func(in, out int32) (bool, error)) (possible bool, err error) {
	last := len(at) - 1
	for n := range last {
		if most >= 0 && n >= most {
			continue
		}
		in := b.AddState()
		if n == 0 {
			b.AddEmpty(at[0], in)
		} else {
			b.AddEmpty(b.AddText(at[n], c.comma), in)
		}
		if n == last-1 && most < 0 { // as after more of them
			b.AddEmpty(b.AddText(at[last], c.comma), in)
		}
		ok, err := add(in, next[n+1])
		if err != nil {
			return false, err
		}
		possible = possible || ok
	}
	return possible, nil
}

// further is a set of keys that are not named, with what their values may be.
type further struct {
	key   *grammar.DFA
	value *expr
}

// maxPatterns bounds the patterns of an object's keys: any set of them may match.
const maxPatterns = 6

// others returns the keys that are not named.
func (c *compiler) others(s *dicts) (list []further, err error) {
	var patterns []pattern
	from := []int{}
	for i, r := range s.rules {
		for _, p := range r.patterns {
			patterns, from = append(patterns, p), append(from, i)
		}
	}
	if len(patterns) > maxPatterns {
		return nil, &UnsupportedError{Feature: "patternProperties of more than 6 patterns"}
	}
	base := texts{maxLength: -1, out: slices.Clip(s.keys)}
	for k := range s.required {
		if _, ok := s.props[k]; !ok {
			base.out = append(base.out, k)
		}
	}
	for set := range 1 << len(patterns) {
		value, matched := anything, make([]bool, len(s.rules))
		key := base
		for i, p := range patterns {
			if set>>i&1 == 1 {
				value, matched[from[i]] = both(value, p.value), true
				key.match = append(slices.Clip(key.match), p.match)
			} else {
				key.not = append(slices.Clip(key.not), p.match)
			}
		}
		for i, r := range s.rules {
			if !matched[i] {
				value = both(value, r.rest)
			}
		}
		if shapes, err := value.union(); err != nil || len(shapes) == 0 {
			if err != nil {
				return nil, err
			}
			continue
		}
		keys, err := c.furtherKeys(s, &key)
		if err != nil {
			return nil, err
		}
		if !keys.Empty() {
			list = append(list, further{keys, value})
		}
	}
	return list, nil
}

// maxFew is the most keys of an object without names of which each has a place of its own.
const maxFew = 32

// fewKeys returns the keys of some sets in order if there are at most maxFew, the sets otherwise.
func fewKeys(list []further) (keys []string, rest []further) {
	for _, f := range list {
		var more []string
		quoted, ok := f.key.ListTexts(maxFew - len(keys))
		if !ok || json.Unmarshal([]byte("["+strings.Join(quoted, ",")+"]"), &more) != nil {
			return nil, list
		}
		keys = append(keys, more...)
	}
	slices.Sort(keys)
	return keys, nil
}

// furtherKeys returns the keys that t and propertyNames allow, as JSON.
func (c *compiler) furtherKeys(s *dicts, t *texts) (*grammar.DFA, error) {
	if len(s.names) == 0 {
		return c.texts(t)
	}
	one := every(text)
	one.texts = *t
	e := &expr{listed: []*shape{one}}
	for _, n := range s.names {
		e = both(e, n)
	}
	return c.schema(e)
}

// order returns the keys that come first, in their order.
func (s *dicts) order() []string {
	keys := slices.Clone(s.keys)
	for _, k := range slices.Sorted(maps.Keys(s.required)) {
		if _, ok := s.props[k]; !ok {
			keys = append(keys, k)
		}
	}
	return keys
}
