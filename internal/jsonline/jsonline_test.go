package jsonline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type Inner struct {
	Steps int    `json:"steps"`
	Seed  uint64 `json:"seed"`
}

type outer struct {
	Inner
	Name  string           `json:"name"`
	Done  bool             `json:"done"`
	List  []float64        `json:"list"`
	Parts map[string]Inner `json:"parts"`
}

func TestPlain(t *testing.T) {
	for line, want := range map[string]string{
		`{"steps":"x"}`:               "steps is a string, want an integer of 64 bits",
		`{"steps":1.5}`:               "steps is 1.5, want an integer of 64 bits",
		`{"seed":-1}`:                 "seed is -1, want 0 to 2^64-1",
		`{"name":[]}`:                 "name is an array, want a string",
		`{"name":3}`:                  "name is a number, want a string",
		`{"done":{}}`:                 "done is an object, want true or false",
		`{"list":true}`:               "list is a bool, want a list",
		`{"list":["x"]}`:              "list is a string, want a number",
		`{"parts":[]}`:                "parts is an array, want an object",
		`{"parts":{"a":{"seed":""}}}`: "parts.seed is a string, want 0 to 2^64-1",
		`[]`:                          "the value is an array, want an object",
		`{"name":`:                    "unexpected end of JSON input",
	} {
		require.EqualError(t, PlainError(json.Unmarshal([]byte(line), new(outer))), want, line)
	}
}

func TestMissing(t *testing.T) {
	require.Equal(t, "", MissingKey([]byte(`{"a":0,"b":[]}`), "a", "b"))
	require.Equal(t, "b", MissingKey([]byte(`{"a":0}`), "a", "b", "c"))
	require.Equal(t, "a", MissingKey([]byte(`{"a":null}`), "a"))
	require.Equal(t, "a", MissingKey([]byte(`{"A":1}`), "a"))
}

func TestStrict(t *testing.T) {
	var o outer
	require.NoError(t, DecodeStrict([]byte(`{"steps":3,"parts":{"a":{"seed":1}}}`), &o))
	require.Equal(t, 3, o.Steps)
	for line, want := range map[string]string{
		`{"name":"a"} {}`:                      "more than one value",
		`{"nam":"a"}`:                          `unknown field "nam"`,
		`{"name":"a","name":"b"}`:              `"name" is there twice, want it once`,
		`{"parts":{"a":{},"a":{}}}`:            `"a" is there twice, want it once`,
		"{\"name\":\"\xff\"}":                  "byte 9 is 0xff, want UTF-8",
		`{"name":"\ud800"}`:                    "byte 9 is half of a surrogate pair, want both halves",
		`{"list":` + strings.Repeat("[", 70):   "unexpected EOF",
		`{"name":` + strings.Repeat(" ", 9000): "unexpected EOF",
	} {
		require.EqualError(t, DecodeStrict([]byte(line), &o), want, line)
	}
	err := Check([]byte(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)))
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, TooDeep, refused.Kind)
}
