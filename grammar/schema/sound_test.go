package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"unmask/grammar"
	"unmask/grammar/schema"
)

var tried = flag.Int("schemas", 150, "how many random schemas to compare with a validator")

// random draws schemas and values that are likely to meet.
type random struct{ *rand.Rand }

func pick[T any](r random, list ...T) T { return list[r.IntN(len(list))] }

var (
	someKeys   = []string{"a", "b", "c", "ab"}
	someValues = []any{nil, true, false, 0, 1, 2, 3, 1.5, -1, "", "a", "b", "ab", "abc", "é",
		[]any{}, []any{1}, []any{"a", 1}, map[string]any{}, map[string]any{"a": 1},
		map[string]any{"a": 1, "b": "a"}, map[string]any{"c": []any{}}}
	somePatterns = []string{"^a", "b$", "^(a$|b)$", "a|b", "^[^a]*$", "^.b?$"}
)

// value returns a JSON value of a depth.
func (r random) value(depth int) any {
	switch n := r.IntN(4); {
	case depth > 0 && n == 0:
		list := []any{}
		for range r.IntN(4) {
			list = append(list, r.value(depth-1))
		}
		return list
	case depth > 0 && n < 3:
		o := map[string]any{}
		for range r.IntN(4) {
			o[pick(r, someKeys...)] = r.value(depth - 1)
		}
		return o
	}
	return pick(r, someValues...)
}

// schema returns a schema of a depth, of some keywords at random.
func (r random) schema(depth int) any {
	if r.IntN(12) == 0 {
		return r.IntN(3) > 0
	}
	s := map[string]any{}
	if r.IntN(2) == 0 {
		s["type"] = pick[any](r, "object", "array", "string", "integer", "number", "object",
			[]any{"object", "null"}, []any{"string", "integer"})
	}
	for range 1 + r.IntN(3) {
		r.keyword(s, depth)
	}
	return s
}

func (r random) schemas(depth int) (list []any) {
	for range 1 + r.IntN(3) {
		list = append(list, r.schema(depth-1))
	}
	return list
}

func (r random) keyword(s map[string]any, depth int) {
	byKey := func(names []string, of func() any) map[string]any {
		o := map[string]any{}
		for range 1 + r.IntN(2) {
			o[pick(r, names...)] = of()
		}
		return o
	}
	sub := func() any { return r.schema(depth - 1) }
	keys := func() any { return []any{pick(r, someKeys...)} }
	if depth == 0 || r.IntN(4) == 0 {
		switch k := pick(r, "const", "enum", "minimum", "exclusiveMaximum", "multipleOf", "minLength",
			"maxLength", "pattern", "required", "minProperties", "maxProperties", "minItems", "maxItems",
			"dependentRequired"); k {
		case "const":
			s[k] = pick(r, someValues...)
		case "enum":
			s[k] = []any{pick(r, someValues...), pick(r, someValues...), pick(r, someValues...)}
		case "multipleOf":
			s[k] = pick[any](r, 1, 2, 0.5)
		case "pattern":
			s[k] = pick(r, somePatterns...)
		case "required":
			s[k] = keys()
		case "dependentRequired":
			s[k] = byKey(someKeys, keys)
		default:
			s[k] = r.IntN(4)
		}
		return
	}
	switch k := pick(r, "properties", "properties", "additionalProperties", "patternProperties",
		"propertyNames", "items", "prefixItems", "contains", "allOf", "anyOf", "oneOf", "oneOf", "not",
		"if", "dependentSchemas", "$ref"); k {
	case "properties", "dependentSchemas":
		s[k] = byKey(someKeys, sub)
	case "patternProperties":
		s[k] = byKey(somePatterns, sub)
	case "additionalProperties":
		s[k] = pick(r, false, sub())
	case "prefixItems", "allOf", "anyOf", "oneOf":
		s[k] = r.schemas(depth)
	case "if":
		s[k], s["then"], s["else"] = sub(), sub(), sub()
	case "$ref":
		s[k] = pick(r, "#/$defs/d", "#inner", "#", "other")
	default:
		s[k] = sub()
	}
}

// Schemas at random: what is written is valid, what is accepted an independent validator accepts,
// and of small values those that it accepts are accepted.
func TestRandomSchemas(t *testing.T) {
	r := random{rand.New(rand.NewPCG(3, 4))}
	compiled, accepted, refused, left := 0, 0, 0, 0
	for range *tried {
		doc := map[string]any{"allOf": []any{r.schema(3)}, "$defs": map[string]any{"d": r.schema(2),
			"i": map[string]any{"$anchor": "inner", "allOf": []any{r.schema(1)}},
			"o": map[string]any{"$id": "other", "$defs": map[string]any{"d": r.schema(1),
				"e": map[string]any{"$anchor": "inner", "type": "integer"}}, "anyOf": []any{
				map[string]any{"$ref": "#/$defs/d"}}}}}
		text, err := json.Marshal(doc)
		require.NoError(t, err)
		s, err := schema.Compile(text, schema.Options{MaxStates: 4000})
		if err != nil {
			continue
		}
		compiled++
		valid := validator(t, string(text))
		for range 4 {
			out := r.walk(s.DFA)
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
			require.NoError(t, err, "%s\n%s", text, out)
			require.NoError(t, valid.Validate(v), "%s\n%s", text, out)
		}
		for range 30 {
			data, err := json.Marshal(r.value(2))
			require.NoError(t, err)
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
			require.NoError(t, err)
			out, err := s.Write(data)
			require.NoError(t, err)
			switch want := valid.Validate(v) == nil; {
			case s.Match(out):
				require.True(t, want, "accepted wrongly\n%s\n%s", text, data)
				accepted++
			case want:
				left++
			default:
				refused++
			}
		}
	}
	t.Logf("%d of %d schemas compiled; of values, %d accepted, %d refused, %d left out", compiled,
		*tried, accepted, refused, left)
	require.Greater(t, 4*compiled, *tried)
	require.Less(t, 100*left, accepted)
}

// walk returns a text on a random way through an automaton, on the shortest after some time.
func (r random) walk(d *grammar.DFA) string {
	var text []byte
	for s := d.Start(); ; {
		edges := d.Out(s)
		if d.Accepts(s) && (len(edges) == 0 || r.IntN(2) == 0) {
			return string(text)
		}
		if len(text) > 80 {
			return string(text) + shortest(d, s)
		}
		e := edges[r.IntN(len(edges))]
		text, s = append(text, e.Lo+byte(r.IntN(int(e.Hi-e.Lo)+1))), e.To
	}
}
