package schema_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/grammar"
	"unmask/grammar/schema"
)

// list returns n items in a format with their number.
func list(n int, format string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(items, ", ")
}

// Every keyword with a number, a list or a text, at sizes that nobody means: it compiles, or it is
// refused, in bounded memory and time.
func TestNothingTakesUnboundedMemoryOrTime(t *testing.T) {
	cases := map[string]string{
		"enum of objects": `{"enum": [` + list(6000, `{"a": %d}`) + `]}`,
		"oneOf":           `{"oneOf": [` + list(6000, `{"const": "v%d"}`) + `]}`,
		"anchors": `{"$defs": {` + list(4000, `"d%[1]d": {"$anchor": "a%[1]d"}`) +
			`}, "properties": {` + list(4000, `"p%[1]d": {"$ref": "#a%[1]d"}`) + `}}`,
		"a cycle of $refs": `{"$defs": {` + list(6000, `"d%[1]d": {"items": {"$ref": "#/$defs/d0"}}`) +
			`}, "$ref": "#/$defs/d1"}`,
		"minimum of many digits": `{"minimum": ` + strings.Repeat("9", 20000) + `}`,
		"multipleOf":             `{"multipleOf": 0.` + strings.Repeat("0", 20000) + `1}`,
		"required":               `{"type": "object", "required": [` + list(4000, `"k%d"`) + `]}`,
		"prefixItems": `{"type": "array", "prefixItems": [` + list(4000, `{"const": %d}`) +
			`]}`,
		"a pattern of a? a? a?": `{"type": "string", "pattern": "` + strings.Repeat("a?", 30000) + `"}`,
		"many patterns": `{"properties": {` + list(10,
			`"p%d": {"type": "string", "pattern": "a.{9}%[1]d"}`) + `}}`,
		"long keys": strings.Repeat(`{"`+strings.Repeat("properties", 60)+`": `, 100) +
			`{}` + strings.Repeat(`}`, 100),
	}
	var tree func(depth int, leaf string) string
	tree = func(depth int, leaf string) string {
		if depth == 0 {
			return `{"const": "` + leaf + `"}`
		}
		one := func(k string) string {
			return `"` + k + `": {"anyOf": [` + tree(depth-1, leaf+k) + ", " +
				tree(depth-1, leaf+k+k) + `]}`
		}
		return `{"properties": {` + one("a") + ", " + one("b") + `}, "required": ["a", "b"]}`
	}
	cases["allOf of two trees"] = `{"allOf": [` + tree(3, "x") + ", " + tree(3, "y") + `]}`
	for _, keyword := range []string{"minimum", "maximum", "multipleOf", "minLength", "maxLength",
		"minItems", "maxItems", "minProperties", "maxProperties"} {
		for _, n := range []string{"1000", "1000000000000", "1e400", "1e-400",
			"1e999999999"} {
			cases[keyword+" "+n] = `{"` + keyword + `": ` + n + `, "properties": {"a": {}, "b": {}}}`
		}
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, err := schema.Compile([]byte(text), schema.Options{})
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			t.Logf("%v, %d MB, %v", took, (after.TotalAlloc-before.TotalAlloc)>>20, err)
			require.Less(t, took, 20*time.Second) // 2 s, on a machine that does other work
			require.Less(t, after.HeapSys, uint64(1<<30))
		})
	}
}

func TestLongListsCompile(t *testing.T) {
	for name, c := range map[string]struct{ schema, in, out string }{
		"numbers": {`{"enum": [` + list(6000, `%d.5`) + `, 1, 1.0, 1e0]}`, "5999.5", "5.25"},
		"texts":   {`{"enum": [` + list(6000, `"v%d"`) + `]}`, `"v5999"`, `"v6000"`},
		"numbers that a bound reduces": {`{"enum": [` + list(6000, `%d`) + `], "minimum": 5999}`, "5999",
			"5998"},
		"numbers that are not listed": {`{"type": "integer", "not": {"enum": [3, 1, 2]}}`, "4", "2"},
		"few keys by their names": {`{"propertyNames": {"enum": ["b", "a"]}, "minProperties": 2}`,
			`{"a": 1, "b": {}}`, `{"a": 1, "a": 2}`},
		"few keys by patterns": {`{"patternProperties": {"^b$": {"type": "integer"}, "^a$": {}}, ` +
			`"additionalProperties": false}`, `{"a": "x", "b": 2}`, `{"b": 4, "b": 4731}`},
		"a key beyond others": {`{"patternProperties": {"^[ab]$": {}}, "additionalProperties": false, ` +
			`"not": {"properties": {"a": {}}, "additionalProperties": false}}`, `{"a": 1, "b": 2}`,
			`{"a": 1}`},
		"questions": {`{"type": "string", "pattern": "^(a?){1000}$"}`, `"aaa"`, `"ab"`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.Compile([]byte(c.schema), schema.Options{})
			require.NoError(t, err)
			require.True(t, s.Match(c.in), c.in)
			require.False(t, s.Match(c.out), c.out)
		})
	}
}

func TestCompilingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := schema.Compile([]byte(`{"type": "object"}`),
		schema.Options{Budget: grammar.NewBudget(ctx, 0)})
	require.ErrorIs(t, err, context.Canceled)
	d, err := grammar.Regexp("[a-z]*", nil)
	require.NoError(t, err)
	_, err = d.Tokens(vocabulary(5000), grammar.TokenOptions{Budget: grammar.NewBudget(ctx, 0)})
	require.ErrorIs(t, err, context.Canceled)
}
