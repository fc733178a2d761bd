package server_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"

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

// completer serves a network with an end token and 2048 positions, whose completions are answers,
// with so many tokens usually.
func completer(t *testing.T, tokens int) (url string) {
	pack := os.DirFS("../testdata/packs/dream-tiny-bf16")
	weights, err := fs.ReadFile(pack, "model.safetensors")
	require.NoError(t, err)
	data, err := fs.ReadFile(pack, "config.json")
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(data, &config))
	config["max_position_embeddings"] = 2048
	config["unmask_answer_length"] = tokens
	m, err := unmask.LoadFS(fstest.MapFS{
		"model.safetensors": {Data: weights},
		"config.json":       {Data: []byte(jsonOf(config))},
		"tokenizer.json": {Data: []byte(`{"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":
			"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},"decoder":{"type":
			"ByteLevel"},"model":{"type":"BPE","vocab":{"a":4,"b":5,"Ġ":6,"Ġb":7},"merges":["Ġ b"]}}`)},
	}, "dream", unmask.Options{Threads: 2})
	require.NoError(t, err)
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "dream", Model: m}))
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return h.URL
}

// The same on the routes for completions, of a model whose completions have an end.
func TestBoundsOfCompletions(t *testing.T) {
	const usual = 16
	url := completer(t, usual)
	ended := 0
	grown := 0
	for seed := range 12 {
		var first map[string]any
		for _, bound := range []int{60, usual, usual + 1, 1024, -1} {
			body := map[string]any{"model": "dream", "prompt": []int{4, 7, 6}, "seed": seed, "steps": 7,
				"temperature": 1, "top_p": 1, "stop": []string{"119", "96"}}
			if bound > 0 {
				body["max_tokens"] = bound
			}
			status, _, data := post(t, url+"/v1/completions", jsonOf(body))
			require.Equal(t, 200, status, "%s", data)
			var answer struct {
				Choices []map[string]any
				Usage   map[string]any
				Unmask  struct{ Evaluated map[string]any }
			}
			require.NoError(t, json.Unmarshal(data, &answer))
			got := answer.Choices[0]
			got["usage"] = answer.Usage
			got["work"] = answer.Unmask.Evaluated
			tokens := int(answer.Usage["completion_tokens"].(float64))
			if first == nil {
				first = got
				if tokens > usual {
					grown++
					break
				}
				ended++
			}
			require.Equal(t, first, got, "seed %d, bound %d", seed, bound)
		}
	}
	require.Positive(t, ended)
	require.Positive(t, grown)
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
	quotes := map[string]int{"550": -100} // the pad and what ends a string are as good as impossible
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
