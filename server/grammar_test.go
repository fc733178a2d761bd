package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"unmask/server"
)

// post returns the status and the body of a request.
func postText(t *testing.T, url, body string) (int, string) {
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer r.Body.Close()
	var out json.RawMessage
	require.NoError(t, json.NewDecoder(r.Body).Decode(&out))
	return r.StatusCode, string(out)
}

func TestStructuredCompletions(t *testing.T) {
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "demo", Model: loaded()["demo"]}))
	h := httptest.NewServer(s.Handler())
	defer s.Close()
	defer h.Close()
	const schema = `{"type": "object", "properties": {"age": {"type": "integer"}, "happy":
		{"type": "boolean"}}, "required": ["age", "happy"], "additionalProperties": false}`
	for _, field := range []string{
		`"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": ` + schema + `}}`,
		`"structured_outputs": {"json": ` + schema + `}`, `"guided_json": ` + schema,
	} {
		status, body := postText(t, h.URL+"/v1/completions",
			`{"prompt": "Lily", "max_tokens": 48, "seed": 3, `+field+`}`)
		require.Equal(t, 200, status, body)
		var got struct{ Choices []struct{ Text string } }
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		var value struct {
			Age   *int
			Happy *bool
		}
		require.NoError(t, json.Unmarshal([]byte(got.Choices[0].Text), &value), body)
		require.True(t, value.Age != nil && value.Happy != nil, body)
	}
	status, body := postText(t, h.URL+"/v1/completions",
		`{"prompt": "Lily was a", "max_tokens": 8, "guided_choice": [" girl", " boy"]}`)
	require.Equal(t, 200, status, body)
	require.Regexp(t, `"text": ?" (girl|boy)[ \\n]*"`, body)
	var told struct {
		Choices []struct {
			Choices []struct {
				Text        string
				Probability float64
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &told))
	each := told.Choices[0].Choices
	require.Equal(t, " girl", each[0].Text)
	require.Equal(t, " boy", each[1].Text)
	require.InDelta(t, 1, each[0].Probability+each[1].Probability, 1e-9)
	require.Greater(t, min(each[0].Probability, each[1].Probability), 0.0)
	for field, want := range map[string]string{
		`"guided_json": {"unevaluatedItems": false}`:       "unevaluatedItems at #",
		`"guided_json": {"type": "integer", "enum": [""]}`: "no value satisfies",
		`"guided_regex": "("`:                              "regex",
		`"guided_regex": "[a-z]{90}"`:                      "tokens to fill, want",
	} {
		status, body := postText(t, h.URL+"/v1/completions",
			`{"prompt": "Lily", "max_tokens": 8, `+field+`}`)
		require.Equal(t, 400, status, body)
		require.Contains(t, body, want)
	}
}

// What a stream under a schema shows never changes: its parts together are the answer, and a
// validator finds the whole valid.
func TestStructuredStreams(t *testing.T) {
	_, h := serving(t, server.Options{})
	url := h.URL + "/v1/completions"
	const text = `{"type": "object", "properties": {"name": {"enum": ["Lily", "Ben"]}, "toys":
		{"type": "array", "items": {"enum": ["ball", "doll"]}, "minItems": 1, "maxItems": 3}, "age":
		{"type": "integer", "minimum": 2, "maximum": 9}}, "required": ["name", "toys", "age"],
		"additionalProperties": false}`
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("child.json", document))
	valid, err := c.Compile("child.json")
	require.NoError(t, err)
	for fields, least := range map[string]int{ // parts with text that a stream has at least
		`"sampler": "random", "steps": 24`:                       3,
		`"sampler": "moment", "steps": 16, "cache": 1`:           3,
		`"sampler": "semi-ar(block=8, confidence)", "steps": 16`: 3,
		`"sampler": "confidence", "steps": 8, "temperature": 0`:  2,
		`"sampler": "remdm", "steps": 16`:                        1, // may close what it opened
	} {
		body := `{"prompt": "Lily had a", "max_tokens": 64, "seed": 8, "guided_json": ` + text + `, ` +
			fields
		want := ask(t, url, body+`}`).Choices[0].Text
		got, parts := "", 0
		for _, e := range stream(t, url, body+`, "stream": true}`) {
			if e.data == "[DONE]" {
				break
			}
			part := read(t, []byte(e.data)).Choices[0].Text
			if got += part; part != "" {
				parts++
			}
			require.True(t, strings.HasPrefix(want, got), "%s: %q, then %q", fields, got, want)
		}
		require.Equal(t, want, got, fields)
		require.GreaterOrEqual(t, parts, least, fields)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(got))
		require.NoError(t, err, "%s: %q", fields, got)
		require.NoError(t, valid.Validate(value), "%s: %q", fields, got)
	}
}
