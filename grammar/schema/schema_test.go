package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/grammar"
	"unmask/grammar/schema"
)

// validator returns an independent validator of a schema.
func validator(t require.TestingT, text string) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	require.NoError(t, err, text)
	return s
}

// schemas have what real ones have.
var schemas = []string{
	`{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
		"required": ["b"], "additionalProperties": false}`,
	`{"type": "object", "properties": {"a": {"enum": [1, "x", null, {"k": [1.5]}]}}}`,
	`{"type": "array", "items": {"type": "number", "minimum": -1.25, "exclusiveMaximum": 30.5},
		"minItems": 1, "maxItems": 3}`,
	`{"type": "integer", "minimum": -17, "maximum": 205, "multipleOf": 3}`,
	`{"type": "integer", "exclusiveMinimum": 9, "maximum": 1000}`,
	`{"type": "number", "minimum": 0.5}`, `{"type": "number", "maximum": -0.25}`,
	`{"type": "number", "multipleOf": 0.01}`,
	`{"type": "string", "pattern": "^[A-Z]{2}-\\d+$", "maxLength": 5}`,
	`{"type": "string", "minLength": 2, "maxLength": 3}`,
	`{"type": "string", "format": "date"}`, `{"type": "string", "format": "ipv4"}`,
	`{"type": "string", "format": "uuid"}`, `{"type": "string", "format": "email"}`,
	`{"oneOf": [{"type": "integer", "minimum": 3}, {"type": "integer", "maximum": 5}]}`,
	`{"anyOf": [{"type": "boolean"}, {"type": "null"}, {"const": "no"}]}`,
	`{"not": {"type": ["string", "object", "array"]}, "type": ["integer", "string", "boolean"]}`,
	`{"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"const": 2}}}],
		"type": "object", "required": ["a", "b"]}`,
	`{"type": "object", "patternProperties": {"^x": {"type": "integer"}},
		"additionalProperties": {"type": "boolean"}, "minProperties": 1, "maxProperties": 2}`,
	`{"type": "object", "propertyNames": {"pattern": "^[ab]$"}}`,
	`{"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "required": ["v"],
		"properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items":
		{"$ref": "#/$defs/tree"}}}, "additionalProperties": false}}}`,
	`{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
		"dependentRequired": {"a": ["b"]}, "additionalProperties": false}`,
	`{"if": {"properties": {"t": {"const": 1}}, "required": ["t"]}, "then": {"required": ["u"]},
		"type": "object", "properties": {"t": {"type": "integer"}, "u": {"type": "null"}},
		"additionalProperties": false}`,
	`{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false}`,
	`{"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}}`,
	`{"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true, "minItems": 2}`,
	`{"oneOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
		{"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}]}`,
}

// walk returns a text on a random way through an automaton, which turns to the end after some time.
func walk(t *rapid.T, d *grammar.DFA) string {
	var text []byte
	s := d.Start()
	for n := 0; ; n++ {
		if d.Accepts(s) && (len(d.Out(s)) == 0 || rapid.Bool().Draw(t, "end")) {
			return string(text)
		}
		edges := d.Out(s)
		e := rapid.SampledFrom(edges).Draw(t, "edge")
		if n > 60 {
			return string(text) + shortest(d, s)
		}
		c := rapid.ByteRange(e.Lo, e.Hi).Draw(t, "byte")
		text, s = append(text, c), e.To
	}
}

// shortest returns one of the shortest texts that may follow in a state.
func shortest(d *grammar.DFA, from int32) string {
	type path struct {
		s    int32
		text string
	}
	seen := map[int32]bool{from: true}
	for queue := []path{{from, ""}}; ; queue = queue[1:] {
		if d.Accepts(queue[0].s) {
			return queue[0].text
		}
		for _, e := range d.Out(queue[0].s) {
			if !seen[e.To] {
				seen[e.To] = true
				queue = append(queue, path{e.To, queue[0].text + string([]byte{e.Lo})})
			}
		}
	}
}

func TestWhatIsWrittenIsValid(t *testing.T) {
	for _, text := range schemas {
		s, err := schema.Compile([]byte(text), schema.Options{Compact: len(text)%2 == 0})
		require.NoError(t, err, text)
		valid := validator(t, text)
		rapid.Check(t, func(t *rapid.T) {
			out := walk(t, s.DFA)
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
			require.NoError(t, err, "%s: %q", text, out)
			require.NoError(t, valid.Validate(v), "%s: %s", text, out)
		})
	}
}

// values draws JSON values that the schemas are about.
func values(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(rapid.Just(any(nil)), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.IntRange(-30, 300), func(n int) any { return n }),
		rapid.Map(rapid.IntRange(-300, 4000), func(n int) any { return float64(n) / 100 }),
		rapid.SampledFrom([]any{"x", "no", "", "ab", "abcd", "AB-12", "2024-02-29", "2023-02-29",
			"10.0.0.1", "10.0.0.256", "é\n\"", "a@b.c", "123e4567-e89b-12d3-a456-426614174000"}))
	if depth == 0 {
		return scalar
	}
	key := rapid.SampledFrom([]string{"a", "b", "t", "u", "v", "x1", "kids", "k"})
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(values(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(key, values(depth-1), 0, 3), func(m map[string]any) any { return m }))
}

func TestJudgesAsAValidatorDoes(t *testing.T) {
	for _, text := range schemas {
		s, err := schema.Compile([]byte(text), schema.Options{})
		require.NoError(t, err, text)
		valid := validator(t, text)
		rapid.Check(t, func(t *rapid.T) {
			data, err := json.Marshal(values(2).Draw(t, "value"))
			require.NoError(t, err)
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
			require.NoError(t, err)
			out, err := s.Write(data)
			require.NoError(t, err)
			require.Equal(t, valid.Validate(v) == nil, s.Match(out), "%s: %s", text, out)
		})
	}
}

// Where not all characters can be counted one by one, no text is too long or too short, and none of
// plain characters is left out.
func TestCountedTexts(t *testing.T) {
	const least, most = 3, 60
	s, err := schema.Compile(fmt.Appendf(nil, `{"minLength": %d, "maxLength": %d, "type": "string"}`,
		least, most), schema.Options{MaxStates: 400})
	require.NoError(t, err)
	require.Less(t, s.Bounds.Exact, most)
	require.LessOrEqual(t, s.States(), 400)
	for n := range most + 2 {
		require.Equal(t, n >= least && n <= most, s.Match(`"`+strings.Repeat("a", n)+`"`), n)
	}
	require.True(t, s.Match(`"`+strings.Repeat("é", s.Bounds.Exact)+`"`))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab\\\"\né日𝄞")), 0, most+5, -1).Draw(t, "text")
		data, err := json.Marshal(text)
		require.NoError(t, err)
		out, err := s.Write(data)
		require.NoError(t, err)
		if n := utf8.RuneCountInString(text); n < least || n > most {
			require.False(t, s.Match(out), text)
		}
	})
}

// What has no part in the size is not narrowed.
func TestBoundsAreNarrowedByThemselves(t *testing.T) {
	var list []string
	for i := range 8 {
		list = append(list, fmt.Sprintf(`"text_%d": {"type": "string", "maxLength": 1000}`, i))
	}
	text := `{"type": "object", "additionalProperties": false, "properties": {
		"tree": {"$ref": "#/$defs/tree"}, ` + strings.Join(list, ", ") + `},
		"$defs": {"tree": {"type": "object", "additionalProperties": false, "properties": {
		"child": {"$ref": "#/$defs/tree"}}}}}`
	s, err := schema.Compile([]byte(text), schema.Options{MaxStates: 8000})
	require.NoError(t, err)
	require.Less(t, s.Bounds.Text, 1000)
	require.GreaterOrEqual(t, s.Bounds.Text, 200)
	require.Equal(t, 4, s.Bounds.Recursion)
	require.Equal(t, 7, s.Bounds.Free)
	require.LessOrEqual(t, s.States(), 8000)
}

func TestRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		`{"unevaluatedProperties": false}`:                "schema is unevaluatedProperties at #,",
		`{"properties": {"a": {"uniqueItems": true}}}`:    "uniqueItems of items that are no short list at #/properties/a",
		`{"$ref": "http://example.org/s"}`:                "outside of the schema, at #",
		`{"type": "integer", "minimum": 3, "maximum": 2}`: "the schema allows no value",
		`{"pattern": "(?=a)"}`:                            "pattern",
		`[]`:                                              "schema is no schema at #",
		`{"a"`:                                            "no JSON: ",
		`{"allOf": [{"$ref": "#"}]}`:                      "a definition that is itself",
		`{"type": ["null", {"$ref": "#"}]}`:               "schema is type, which is no text or list of texts, at #",
		`{"type": "int"}`:                                 `schema is type "int" at #`,
		`{"minLength": 3000000, "type": "string"}`:        "states is more than 32768",
	} {
		_, err := schema.Compile([]byte(text), schema.Options{})
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestKeysStayInTheSchemasOrder(t *testing.T) {
	s, err := schema.Compile([]byte(`{"properties": {"z": {}, "a": {}}}`), schema.Options{})
	require.NoError(t, err)
	out, err := s.Write([]byte(`{"q": 1, "a": 2.50, "z": 1e2}`))
	require.NoError(t, err)
	require.Equal(t, `{"z": 100, "a": 2.5, "q": 1}`, out)
	require.True(t, s.Match(out))
	require.False(t, s.Match(`{"a": 1, "z": 2}`))
}

func FuzzCompile(f *testing.F) {
	for _, s := range schemas {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := schema.Compile(data, schema.Options{MaxStates: 2000})
		if err != nil {
			require.NotContains(t, fmt.Sprint(err), "\n")
			return
		}
		text := shortest(s.DFA, s.Start())
		require.True(t, json.Valid([]byte(text)), text)
	})
}

// Where free values in many places may be little deep, those of further keys of the outermost
// object, which are in one place, are deeper.
func TestOuterValuesAreDeeper(t *testing.T) {
	var objects []string
	for i := range 60 {
		objects = append(objects, fmt.Sprintf(`"system-%d": {"type": "object"}`, i))
	}
	s, err := schema.Compile([]byte(`{"type": "object", "properties": {"systems": {"type": "object",
		"properties": {`+strings.Join(objects, ", ")+`}}}}`), schema.Options{})
	require.NoError(t, err)
	require.Less(t, s.Bounds.Free, 4)
	nested := func(depth int) string {
		return strings.Repeat(`{"a": `, depth) + "1" + strings.Repeat("}", depth)
	}
	require.True(t, s.Match(`{"other": `+nested(4)+`}`))
	require.False(t, s.Match(`{"systems": {"system-7": `+nested(6)+`}}`))
	require.LessOrEqual(t, s.States(), schema.DefaultLimit)
}
