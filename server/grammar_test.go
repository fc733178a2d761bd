package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
