package schema_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/grammar/schema"
	"unmask/testkit/refusal"
)

// What schemas mean, by instances that they allow and that they do not.
func TestMeaning(t *testing.T) {
	for _, row := range []struct {
		name, schema string
		valid        []string
		invalid      []string
	}{
		{"anchors at both ends of an alternative", `{"type": "string", "pattern": "^(cat$|dog)$"}`,
			[]string{`"cat"`, `"dog"`}, []string{`"cats"`, `"a dog"`}},
		{"keys by a pattern with anchors", `{"patternProperties": {"^(cat$|dog)$": {"type": "integer"}}}`,
			[]string{`{"cat": 1}`, `{"cats": "x"}`}, []string{`{"cat": "x"}`, `{"dog": "x"}`}},
		{"not of a pattern", `{"type": "string", "not": {"pattern": "^(cat$|dog)$"}}`,
			[]string{`"cats"`}, []string{`"cat"`, `"dog"`}},

		{"not of a constant object", `{"not": {"const": {"k": 1}}}`,
			[]string{`{"k": 2}`, `{}`, `{"k": 1, "l": 1}`, `"x"`}, []string{`{"k": 1}`, `{"k": 1.0}`}},
		{"not of a closed object", `{"type": "object", "not": {"properties": {"k": {}, "l": {}},
			"additionalProperties": false}}`,
			[]string{`{"m": 1}`, `{"k": 1, "m": 1}`}, []string{`{}`, `{"k": 1}`, `{"k": 1, "l": 2}`}},
		{"one of a closed and an open object", `{"oneOf": [{"type": "object", "properties": {"k":
			{"type": "integer"}}, "required": ["k"], "additionalProperties": false},
			{"type": "object", "properties": {"l": {"type": "integer"}}}]}`,
			[]string{`{"l": 1}`, `{"k": 1, "l": 1}`, `{"m": 1}`}, []string{`{"k": 1}`, `{"l": "x"}`}},
		{"if a closed object", `{"type": "object", "if": {"properties": {"k": {}},
			"additionalProperties": false}, "then": {"maxProperties": 0}}`,
			[]string{`{}`, `{"l": 1}`, `{"k": 1, "l": 1}`}, []string{`{"k": 1}`}},
		{"not of one of, deep", `{"properties": {"a": {"properties": {"b": {"properties": {"c": {"not":
			{"oneOf": [{"minimum": 0}, {"maximum": 9}]}}}}}}}}`,
			[]string{`{"a": {"b": {"c": 5}}}`, `{"a": {"b": {"c": "x"}}}`},
			[]string{`{"a": {"b": {"c": 10}}}`, `{"a": {"b": {"c": -1}}}`}},

		{"no value, as an alternative", `{"anyOf": [{"enum": ["a"], "const": "b"}, {"enum": []},
			{"oneOf": []}, {"const": "c"}]}`, []string{`"c"`}, []string{`"a"`, `"b"`, `1`}},
		{"no value, of a key", `{"properties": {"k": {"enum": [1], "const": 2}, "l": {"type": []}},
			"additionalProperties": false}`, []string{`{}`}, []string{`{"k": 1}`, `{"k": 2}`, `{"l": 1}`}},
		{"enum beside $ref", `{"$defs": {"e": {"enum": [1, 2]}}, "properties": {"k": {"$ref":
			"#/$defs/e", "enum": [3]}}, "additionalProperties": false}`, []string{`{}`},
			[]string{`{"k": 3}`, `{"k": 1}`}},

		{"keywords as names of keys", `{"type": "object", "properties": {"default": {"$ref": "#"},
			"enum": {"$anchor": "e", "type": "integer"}, "const": {"$ref": "#e"}, "examples": {"$ref": "#"}},
			"additionalProperties": false}`,
			[]string{`{"default": {"const": 1}}`, `{"examples": {}, "enum": 1}`},
			[]string{`{"default": 1}`, `{"const": "x"}`}},

		{"$id of the same document", `{"$id": "https://a.test/root.json", "$defs": {"n": {"$id":
			"n.json", "type": "integer"}}, "items": {"$ref": "n.json"}}`, []string{`[1]`}, []string{`["x"]`}},
		{"$id without a root's", `{"$defs": {"n": {"$id": "n", "type": "integer"}}, "items":
			{"$ref": "n"}}`, []string{`[1]`}, []string{`["x"]`}},
		{"relative to an embedded $id", `{"$id": "https://a.test/", "$defs": {"w": {"type": "integer"},
			"in": {"$id": "in", "$defs": {"w": {"type": "string"}}, "$ref": "#/$defs/w"}},
			"items": {"$ref": "#/$defs/in"}}`, []string{`["x"]`}, []string{`[1]`}},
		{"through a folder", `{"$id": "https://a.test/b/c", "$defs": {"x": {"$id": "/d/", "$defs":
			{"y": {"$id": "y", "const": 1}}, "type": "string"}}, "items": {"$ref": "../d/y"}}`,
			[]string{`[1]`}, []string{`["x"]`}},
		{"a URN", `{"$id": "urn:uuid:deadbeef-0000", "$defs": {"n": {"$anchor": "n", "const": 1}},
			"items": {"$ref": "urn:uuid:deadbeef-0000#n"}}`, []string{`[1]`}, []string{`[2]`}},
		{"one anchor in two resources", `{"$id": "https://a.test/", "$defs": {"p": {"$id": "p", "$defs":
			{"x": {"$anchor": "x", "const": 1}}}, "q": {"$id": "q", "$defs": {"x": {"$anchor": "x",
			"const": 2}}}}, "items": {"$ref": "q#x"}}`, []string{`[2]`}, []string{`[1]`}},
		{"a dynamic anchor, named", `{"$defs": {"x": {"$dynamicAnchor": "x", "const": 1}}, "items":
			{"$ref": "#x"}}`, []string{`[1]`}, []string{`[2]`}},
		{"$id in a value", `{"const": {"$id": "x", "$anchor": "x"}, "$defs": {"x": {"$anchor": "x"}}}`,
			[]string{`{"$id": "x", "$anchor": "x"}`}, []string{`1`}},
		{"a place that is no schema's", `{"x-types": {"n": {"items": {"$ref": "#/x-types/n"}}}, "items":
			{"$ref": "#/x-types/n"}}`, []string{`[[]]`}, nil},
		{"an escaped pointer", `{"$defs": {"a/b%": {"const": 1}}, "items": {"$ref": "#/$defs/a~1b%25"}}`,
			[]string{`[1]`}, []string{`[2]`}},

		{"draft 4: id", `{"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://a.test/r",
			"definitions": {"n": {"id": "#n", "type": "integer"}, "m": {"id": "m", "type": "string"}},
			"items": [{"$ref": "#n"}, {"$ref": "m"}]}`, []string{`[1, "x"]`}, []string{`["x"]`, `[1, 1]`}},
		{"draft 4: a number with a point is no integer", `{"$schema":
			"http://json-schema.org/draft-04/schema#", "type": "integer"}`, []string{`12345`},
			[]string{`12345.0`, `1e2`, `0.5`}},
		{"draft 4: but it is a number", `{"$schema": "http://json-schema.org/draft-04/schema#",
			"type": "number", "minimum": 1}`, []string{`12345.0`, `1.5`}, []string{`0.0`}},
		{"a number with a zero fraction is an integer", `{"type": "integer"}`, []string{`12345.0`, `1e2`},
			[]string{`0.5`}},
		{"draft 4: flags of bounds", `{"$schema": "http://json-schema.org/draft-04/schema#", "type":
			"integer", "minimum": 1, "exclusiveMinimum": true}`, []string{`2`}, []string{`1`}},
		{"draft 7: nothing beside $ref", `{"$schema": "http://json-schema.org/draft-07/schema#",
			"definitions": {"r": {"type": "array"}}, "items": {"$ref": "#/definitions/r", "maxItems": 1}}`,
			[]string{`[[1, 2]]`}, []string{`[1]`}},
		{"draft 7: prefixItems says nothing, items counts", `{"$schema":
			"http://json-schema.org/draft-07/schema#", "type": "array", "prefixItems": [{"type": "string"}],
			"items": {"type": "integer"}}`, []string{`[1]`, `[1, 2]`}, []string{`["a"]`, `["a", 1]`}},
		{"draft 7: no $id beside $ref", `{"$schema": "http://json-schema.org/draft-07/schema#", "$id":
			"http://a.test/b/", "definitions": {"x": {"$id": "http://a.test/c/x", "type": "string"}, "y":
			{"$id": "x", "type": "integer"}}, "items": {"$id": "http://a.test/c/", "$ref": "x"}}`,
			[]string{`[1]`}, []string{`["x"]`}},
		{"2020-12: keywords beside $ref count", `{"$defs": {"r": {"type": "array"}}, "items": {"$ref":
			"#/$defs/r", "maxItems": 1}}`, []string{`[[1]]`}, []string{`[[1, 2]]`}},
		{"zero has no sign", `{"type": "number", "exclusiveMaximum": 0}`, []string{`-0.5`, `-1`, `-0.001`},
			[]string{`0`, `0.5`, `1`}},
		{"minContains without contains", `{"minContains": 2, "maxContains": 3}`, []string{`[1]`}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, err := schema.Compile([]byte(row.schema), schema.Options{MaxStates: 4000})
			require.NoError(t, err)
			for valid, list := range map[bool][]string{true: row.valid, false: row.invalid} {
				for _, instance := range list {
					out, err := s.Write([]byte(instance))
					require.NoError(t, err)
					require.Equal(t, valid, s.Match(out), instance)
				}
			}
		})
	}
}

// Bounds of numbers, against arithmetic.
func TestBoundsOfNumbers(t *testing.T) {
	bounds := strings.Fields("0 -0.5 0.05 9.99 -10 10 99 100.01 -109 5 -9.5")
	numbers := append(strings.Fields("-0.049 0.0 0.5 -0.50 9.990 9.9 10.0 -10.00 9 -9 98.99 100.009 100.011"+
		" 1000 -1000 -109.5 -108.99 4.99 5.000 12"), bounds...)
	for i, bound := range bounds {
		for _, keyword := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
			t.Run(keyword+" "+bound, func(t *testing.T) {
				s, err := schema.Compile(fmt.Appendf(nil, `{"type": "number", %q: %s}`, keyword, bound),
					schema.Options{})
				require.NoError(t, err)
				require.False(t, s.Match("-0.0") || s.Match("-0") || s.Match("01"))
				at, err := strconv.ParseFloat(bounds[i], 64)
				require.NoError(t, err)
				for _, n := range numbers {
					x, err := strconv.ParseFloat(n, 64)
					require.NoError(t, err)
					want := map[string]bool{"minimum": x >= at, "maximum": x <= at,
						"exclusiveMinimum": x > at, "exclusiveMaximum": x < at}[keyword]
					require.Equal(t, want, s.Match(n), n)
				}
			})
		}
	}
}

func TestFormats(t *testing.T) {
	label := strings.Repeat("a", 63)
	for format, row := range map[string]struct{ valid, invalid []string }{
		"hostname": {[]string{"a", "a-b.example", "1.2.3", label + ".a", "a--b"},
			[]string{"", "-a", "a-", "a..b", ".a", "a.", label + "a", "a_b", "xn--X", "ab--c",
				label + "." + label + "." + label + "." + label}},
		"email": {[]string{"a@b", "first.last+tag@mail.example"},
			[]string{"a", "@b", "a@", ".a@b", "a.@b", "a..b@c", "a@-b", "a@b@c",
				strings.Repeat("a", 65) + "@b"}},
		"uri": {[]string{"http://a.example:80/b?c#d", "urn:a:b", "mailto:a@b.c", "http://u:p@a/", "a:",
			"ldap://[2001:db8::7]/c", "http://[::1]:8080/", "file:///a", "x:/a//b"},
			[]string{"", "a", "//a/b", "http://a:b/", "http://a:80:80/", "http://a@b@c/", "http://[a/",
				"http://[1:2]/", "http://a b/", "http:///%zz", "1a:b", "http://a/\\", ":a"}},
		"uri-reference": {[]string{"", "a", "/a", "//a:80/b", "a/b:c", "./a:b", "?q", "#f", "a:b"},
			[]string{":a", "1a:b", "//a:b/c", "a b", "\\\\a\\b", "//a@b@c"}},
		"iri": {[]string{"http://ƒøø.ßår/?∂=é#π", "http://a/b"}, []string{"/é",
			"http://a:é/", "é"}},
		"iri-reference": {[]string{"é", "//é/a"}, []string{":é", "é:b", "\\é"}},
		"uri-template": {[]string{"http://a/{b}{?c,d*,e:3}", "", "{+a.b}"},
			[]string{"{", "}", "{a", "{a b}", "a{{b}}", "{}", "<"}},
		"relative-json-pointer": {[]string{"0", "1/a", "10#", "0/"}, []string{"", "/a", "01",
			"-1", "1#/a", "a"}},
		"idn-email":    {[]string{"a@b"}, []string{"2962"}},
		"idn-hostname": {[]string{"a.b"}, []string{".", "a..b"}},
	} {
		t.Run(format, func(t *testing.T) {
			s, err := schema.Compile(fmt.Appendf(nil, `{"type": "string", "format": %q}`, format),
				schema.Options{})
			require.NoError(t, err)
			for valid, list := range map[bool][]string{true: row.valid, false: row.invalid} {
				for _, text := range list {
					quoted := strings.ReplaceAll(`"`+text+`"`, `\`, `\\`)
					require.Equal(t, valid, s.Match(quoted), text)
				}
			}
		})
	}
}

// Keywords with something else than they hold are refused by name, wherever they stand.
func TestMalformedKeywords(t *testing.T) {
	for keyword, list := range map[string]string{
		"$schema": `5, null`, "$id": `5, {}`, "$anchor": `5, true`, "$ref": `5, {}`, "$defs": `5, []`,
		"definitions": `"x", true`, "type": `5, [1], {}`, "enum": `5, {}, "a"`, "nullable": `"true"`,
		"minimum": `"1", true`, "maximum": `null, [1]`, "exclusiveMinimum": `"1"`,
		"exclusiveMaximum": `{}`, "multipleOf": `"2", true`, "minLength": `"1", -1, 1.5, true`,
		"maxLength": `null`, "pattern": `5, ["a"]`, "format": `5, {}`, "items": `5, "x"`,
		"prefixItems": `{}, 5`, "additionalItems": `5, []`, "contains": `5, []`, "minItems": `"1"`,
		"maxItems": `-1`, "uniqueItems": `5, "true"`, "properties": `[], 5, true`,
		"patternProperties": `[], "x"`, "additionalProperties": `5, []`, "propertyNames": `5, "a"`,
		"required": `true, "a", [1], {}`, "minProperties": `0.5`, "maxProperties": `"3"`,
		"dependencies": `5, []`, "dependentRequired": `5, [], {"a": 5}, {"a": [1]}, {"a": "b"}`,
		"dependentSchemas": `5, []`, "allOf": `5, {}`, "anyOf": `{}, true`, "oneOf": `"x"`,
		"not": `5, []`,
		"if":  `"x"`, "then": `5`, "else": `[]`,
	} {
		t.Run(keyword, func(t *testing.T) {
			var values []json.RawMessage
			require.NoError(t, json.Unmarshal([]byte("["+list+"]"), &values))
			for _, value := range values {
				for at, form := range map[string]string{"#": `{%q: %s}`, "#/properties/a": `{"type": "string",
					"properties": {"a": {%q: %s}}}`, "#/$defs/a": `{"$defs": {"a": {%q: %s}}}`} {
					_, err := schema.Compile(fmt.Appendf(nil, form, keyword, value), schema.Options{})
					require.ErrorContains(t, err, "schema is "+keyword+", which is no ")
					require.ErrorContains(t, err, " at "+at+",", string(value))
				}
			}
		})
	}
	for _, text := range []string{`{"allOf": [5]}`, `{"properties": {"a": 5}}`, `{"items": [null]}`,
		`{"dependencies": {"a": 5}}`, `{"$defs": {"a": "x"}}`, `{"dependentSchemas": {"a": ["b"]}}`} {
		_, err := schema.Compile([]byte(text), schema.Options{})
		require.ErrorContains(t, err, "schema is no schema at #/", text)
	}
	_, err := schema.Compile([]byte(`{"$schema": "https://json-schema.org/draft/2020-12/schema",
		"items": [{}]}`), schema.Options{})
	require.ErrorContains(t, err, "schema is items, which is no schema, at #")
}

// URIs of parts are resolved against those around them, so that a long one may make much of many
// short ones; the work is counted.
func TestLongURIs(t *testing.T) {
	long := strings.Repeat("a/", 1<<17)
	part := strings.Repeat(`{"$id": "b/", "$ref": "c"}, `, 1000) + "true"
	for _, text := range []string{
		fmt.Sprintf(`{"$id": "http://a.test/%s", "anyOf": [%s]}`, long, part),
		fmt.Sprintf(`{"$id": "http://a.test/%s", "anyOf": [%s]}`, long, strings.ReplaceAll(part, "$id", "x")),
	} {
		_, err := schema.Compile([]byte(text), schema.Options{})
		refusal.Require(t, err, "grammar", "one that takes too much work")
	}
}
