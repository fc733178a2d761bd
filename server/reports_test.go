package server_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/server"
)

// reportCase is a request of testdata/reports, each after a public report about another server.
type reportCase struct {
	Path string
	Body map[string]any

	// Right is what must come: 200; "said", an answer that says that it read less than all; "names X",
	// a refusal with X; "as {}", the usage of the same request with {} as arguments; "thought", more
	// tokens than without the thoughts.
	Right string
}

// usage posts a request and returns its status, its answer and the tokens of its prompt.
func usage(t *testing.T, url string, body any) (status int, answer string, promptTokens int) {
	data, err := json.Marshal(body)
	require.NoError(t, err)
	status, _, raw := post(t, url, string(data))
	var found struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	_ = json.Unmarshal(raw, &found)
	return status, string(raw), found.Usage.Prompt
}

// replaceField returns a value of JSON in which change has replaced the objects.
func replaceField(value any, change func(object map[string]any)) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, x := range v {
			out[key] = replaceField(x, change)
		}
		change(out)
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = replaceField(x, change)
		}
		return out
	}
	return value
}

func TestPublicReports(t *testing.T) {
	s, h := serving(t, server.Options{})
	for name, dir := range map[string]string{
		"chat": "testdata/reports/chat",
		"bert": "../embed/testdata/bert",
	} {
		m, err := unmask.Load(t.Context(), dir, unmask.Options{Threads: 1})
		require.NoError(t, err)
		require.NoError(t, s.Add(server.Model{Name: name, Model: m}))
	}
	files, err := filepath.Glob("testdata/reports/requests/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			var c reportCase
			require.NoError(t, json.Unmarshal(data, &c))
			status, answer, tokens := usage(t, h.URL+c.Path, c.Body)
			kind, want, _ := strings.Cut(c.Right, " ")
			switch kind {
			case "said":
				require.Equal(t, 200, status, answer)
				require.Contains(t, answer, "truncated")
			case "names":
				require.Equal(t, 404, status)
				require.Contains(t, answer, want)
			case "as", "thought":
				field, with := "arguments", any("{}")
				if kind == "thought" {
					field, with = "reasoning_content", nil
				}
				other := replaceField(c.Body, func(object map[string]any) {
					if _, ok := object[field]; ok {
						object[field] = with
					}
				})
				_, _, otherTokens := usage(t, h.URL+c.Path, other)
				require.Equal(t, 200, status, answer)
				if kind == "as" {
					require.Equal(t, otherTokens, tokens)
				} else {
					require.Greater(t, tokens, otherTokens)
				}
			default:
				require.Equal(t, 200, status, answer)
			}
		})
	}
}

// A call without arguments may come back in any of the ways in which clients write that, on every
// route that takes calls; arguments that are no object are refused with their function's name.
func TestCallsWithoutArguments(t *testing.T) {
	s, h := serving(t, server.Options{})
	m, err := unmask.Load(t.Context(), "testdata/reports/chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "chat", Model: m}))
	ask := func(path, arguments string) (int, string) {
		bodies := map[string]string{
			"/v1/chat/completions": `{"model": "chat", "max_tokens": 2, "messages": [
				{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "1",
				"type": "function", "function": {"name": "clock", "arguments": ` + arguments + `}}]},
				{"role": "tool", "tool_call_id": "1", "content": "7:40"}]}`,
			"/v1/responses": `{"model": "chat", "max_output_tokens": 2, "input": [
				{"role": "user", "content": "a"}, {"type": "function_call", "call_id": "1",
				"name": "clock", "arguments": ` + arguments + `},
				{"type": "function_call_output", "call_id": "1", "output": "7:40"}]}`,
		}
		status, _, data := post(t, h.URL+path, bodies[path])
		return status, string(data)
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		for _, none := range []string{`""`, `" "`, `"{}"`, `"null"`} {
			status, answer := ask(path, none)
			require.Equal(t, 200, status, "%s %s: %s", path, none, answer)
		}
		for _, wrong := range []string{`"[1]"`, `"7"`, `"{"`} {
			status, answer := ask(path, wrong)
			require.Equal(t, 400, status, "%s %s: %s", path, wrong, answer)
			require.Contains(t, answer, "clock")
			require.Contains(t, answer, "want an object of arguments in JSON")
		}
	}
}

// A system message that says nothing is none, as on the command line.
func TestEmptySystemMessage(t *testing.T) {
	s, h := serving(t, server.Options{})
	m, err := unmask.Load(t.Context(), "testdata/reports/chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "chat", Model: m}))
	count := func(messages string) int {
		var body any
		require.NoError(t, json.Unmarshal([]byte(`{"model": "chat", "max_tokens": 2,
			"messages": [`+messages+`]}`), &body))
		status, answer, tokens := usage(t, h.URL+"/v1/chat/completions", body)
		require.Equal(t, 200, status, answer)
		return tokens
	}
	const user = `{"role": "user", "content": "a"}`
	require.Equal(t, count(user), count(`{"role": "system", "content": ""},`+user))
	require.Greater(t, count(`{"role": "system", "content": "b"},`+user), count(user))
}
