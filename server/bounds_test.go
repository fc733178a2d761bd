package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/server"
)

// shortTalker serves the demo's chat with answers that usually have so many tokens.
func shortTalker(t *testing.T, tokens int) (url string) {
	m, err := unmask.LoadFS(demo.Chat(), "chat", unmask.Options{Threads: 2})
	require.NoError(t, err)
	m.AnswerLength = tokens
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "chat", Model: m}))
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return h.URL
}

// An answer that ends within its usual length is the same on every route under every bound from
// there on, and takes the same passes. One that has no end there grows, streamed or not, up to the
// bound.
func TestBoundsOnEveryRoute(t *testing.T) {
	type work struct {
		Unmask struct{ Evaluated generate.Work }
	}
	const usual = 24
	url := shortTalker(t, usual)
	chat := map[string]any{"model": "chat", "messages": user("Hello!"), "seed": 3,
		"sampler": "semi-ar(threshold,block=8)"}
	var first told
	var firstWork work
	for _, bound := range []int{usual, usual + 1, 1024, 4096} {
		for name, a := range apis {
			t.Run(fmt.Sprint(name, bound), func(t *testing.T) {
				body := maps.Clone(chat)
				body["max_tokens"] = bound
				status, _, data := post(t, url+a.path, jsonOf(notStreamedBody(a, body)))
				require.Equal(t, 200, status, "%s", data)
				said := a.whole(t, data)
				var took work
				require.NoError(t, json.Unmarshal(data, &took))
				if first.Text == "" {
					first = said
					firstWork = took
				}
				require.NotEmpty(t, said.Text)
				require.Equal(t, first.Text, said.Text)
				require.Equal(t, first.Tokens, said.Tokens)
				require.Positive(t, took.Unmask.Evaluated.Full)
				require.Equal(t, firstWork, took)
			})
		}
	}
	require.Less(t, first.Tokens[1], usual)

	chat["logit_bias"] = map[string]int{"550": -100} // the pad, which does not count
	chat["seed"] = 5
	chat["messages"] = user("Tell me about Lily.")
	lengths := map[int]bool{}
	for _, bound := range []int{9, 24, 30, 60} {
		for name, a := range apis {
			t.Run(fmt.Sprint(name, "grows to", bound), func(t *testing.T) {
				body := maps.Clone(chat)
				body["max_tokens"] = bound
				status, _, data := post(t, url+a.path, jsonOf(notStreamedBody(a, body)))
				require.Equal(t, 200, status, "%s", data)
				said := a.whole(t, data)
				require.LessOrEqual(t, said.Tokens[1], bound)
				lengths[said.Tokens[1]] = true
				if said.Finish == "length" || said.Finish == "max_tokens" {
					require.Equal(t, bound, said.Tokens[1])
				}
				streamed := a.stream(t, url+a.path, jsonOf(a.body(body)))
				require.Equal(t, said.Text, streamed.Text)
				require.Equal(t, said.Tokens, streamed.Tokens)
			})
		}
	}
	require.Contains(t, lengths, 30) // by a block that has no room for all of it
}

// An object that needs 300 tokens has them under a bound that no answer reaches, also where the
// usual length is shorter: because no text of its schema is, or because the model goes on.
func TestLongObjectsUnderABound(t *testing.T) {
	url := shortTalker(t, unmask.ReplyLength)
	word := strings.Repeat("Zq", 75)
	needed := fmt.Sprintf(`{"type":"object","properties":{"a":{"const":%q},"b":{"const":%q}},
		"required":["a","b"],"additionalProperties":false}`, word, word)
	wordy := `{"type":"object","required":["a","b","c"],"additionalProperties":false,"properties":{
		"a":{"type":"string","maxLength":480},"b":{"type":"string","maxLength":480},
		"c":{"type":"string","maxLength":480}}}`
	quotes := map[string]int{} // tokens that end a string are as good as impossible
	m, err := unmask.LoadFS(demo.Chat(), "chat", unmask.Options{})
	require.NoError(t, err)
	for id := range int32(m.Spec().Outcomes) {
		if token, _ := m.Text.Token(id); strings.Contains(token, `"`) {
			quotes[fmt.Sprint(id)] = -100
		}
	}
	for name, schema := range map[string]string{"needed": needed, "wordy": wordy} {
		for _, isStream := range []bool{true, false} {
			t.Run(fmt.Sprint(name, isStream), func(t *testing.T) {
				body := map[string]any{"model": "chat", "messages": user("Tell me about Lily."), "seed": 3,
					"max_tokens": 4096, "response_format": map[string]any{"type": "json_schema",
						"json_schema": map[string]any{"name": "a", "schema": json.RawMessage(schema)}}}
				if name == "wordy" {
					body["logit_bias"] = quotes
				}
				a := apis["chat"]
				var said told
				if isStream {
					said = a.stream(t, url+a.path, jsonOf(a.body(body)))
				} else {
					status, _, data := post(t, url+a.path, jsonOf(notStreamedBody(a, body)))
					require.Equal(t, 200, status, "%s", data)
					said = a.whole(t, data)
				}
				require.True(t, json.Valid([]byte(said.Text)), said.Text)
				require.Equal(t, "stop", said.Finish)
				require.Greater(t, said.Tokens[1], 300)
			})
		}
	}
}

// notStreamedBody returns the body of a request that is answered at once.
func notStreamedBody(a api, chat map[string]any) map[string]any {
	body := a.body(chat)
	body["stream"] = false
	return body
}

// Ollama's -1 and -2, no bound and all that there is room for, change nothing where an answer ends,
// as any bound from its usual length on, also on the route for one prompt.
func TestOllamaWithoutBound(t *testing.T) {
	const usual = 24
	url := shortTalker(t, usual)
	for path, asked := range map[string]string{
		"/api/chat":     `"messages":[{"role":"user","content":"Hello!"}]`,
		"/api/generate": `"prompt":"Hello!"`,
	} {
		var first map[string]any
		for _, bound := range []int{usual, 1024, -1, -2} {
			body := fmt.Sprintf(`{"model":"chat","stream":false,%s,"options":{"seed":3,
				"sampler":"semi-ar(threshold,block=8)","num_predict":%d}}`, asked, bound)
			status, _, data := post(t, url+path, body)
			require.Equal(t, 200, status, "%s", data)
			var said map[string]any
			require.NoError(t, json.Unmarshal(data, &said))
			got := map[string]any{"message": said["message"], "response": said["response"],
				"tokens": said["eval_count"], "why": said["done_reason"]}
			if first == nil {
				first = got
				require.Equal(t, "stop", got["why"])
			}
			require.Equal(t, first, got, "%s %d", path, bound)
		}
	}
}
