package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/prompt"
)

// growing returns DreamOn's pack. It has no tokenizer, so texts are numbers.
func growing(t *testing.T) *unmask.Model {
	t.Helper()
	m, err := unmask.LoadFS(os.DirFS("../testdata/packs/dreamon-tiny"), "dreamon",
		unmask.Options{Backend: plain.New()})
	require.NoError(t, err)
	return m
}

// editorExtra is a list of chunks as llama.vim keeps them.
const editorExtra = `[{"text": "5 6 7\n8 9\n", "time": [1763, 81227], "filename": "a.c"},
	{"text": "10 11\n", "time": [1764, 12], "filename": "b.c"}]`

// The requests of llama.vim (autoload/llama.vim, llama#fim and s:ring_update) and of llama.vscode
// (src/llama-server.ts, createRequestPayload), with the fields and defaults of their sources, get
// the fields that these plugins read.
func TestEditorsRequests(t *testing.T) {
	url := one(t, "dreamon", growing(t))
	send := func(body string) (got map[string]any) {
		status, _, data := post(t, url+"/infill", strings.ReplaceAll(body, "\n\t", " "))
		require.Equal(t, 200, status, "%s", data)
		require.NoError(t, json.Unmarshal(data, &got))
		return got
	}
	require.Empty(t, send(`{"input_prefix": "", "input_suffix": "", "input_extra": `+editorExtra+`,
		"prompt": "", "n_predict": 0, "temperature": 0.0, "stream": false, "samplers": [],
		"cache_prompt": true, "t_max_prompt_ms": 1, "t_max_predict_ms": 1, "response_fields": [""]}`))
	vim := send(`{"id_slot": 0, "stop": [],
		"input_prefix": "12 13 14\n", "input_suffix": " 17 18\n19\n", "input_extra": ` +
		editorExtra + `, "prompt": "15 16", "n_predict": 128, "n_indent": 0, "top_k": 40, "top_p": 0.99,
		"stream": false, "samplers": ["top_k", "top_p", "infill"], "cache_prompt": true,
		"t_max_prompt_ms": 500, "t_max_predict_ms": 1500, "response_fields": ["content",
		"timings/prompt_n", "timings/prompt_ms", "timings/prompt_per_token_ms",
		"timings/prompt_per_second", "timings/predicted_n", "timings/predicted_ms",
		"timings/predicted_per_token_ms", "timings/predicted_per_second", "truncated",
		"tokens_cached"]}`)
	require.Len(t, vim, 11)
	require.Equal(t, false, vim["truncated"])
	require.LessOrEqual(t, vim["timings/predicted_n"], 128.0)
	require.Len(t, strings.Fields(vim["content"].(string)), int(vim["timings/predicted_n"].(float64)))

	empty := send(`{"input_prefix": "", "input_suffix": "", "input_extra": ` + editorExtra + `,
		"prompt": "", "n_predict": 0, "samplers": [], "cache_prompt": true, "t_max_prompt_ms": 500,
		"t_max_predict_ms": 1}`)
	require.Equal(t, []any{"", 0.0}, []any{empty["content"], empty["tokens_predicted"]})
	code := send(`{"input_prefix": "12 13 14\n", "input_suffix": " 17\n", "input_extra": [],
		"prompt": "15 16", "n_predict": 12, "top_k": 40, "top_p": 0.99, "stream": false,
		"samplers": ["top_k", "top_p", "infill"], "cache_prompt": true, "n_indent": 4,
		"t_max_prompt_ms": 500, "t_max_predict_ms": 2500}`)
	settings, timings := code["generation_settings"].(map[string]any), code["timings"].(map[string]any)
	require.EqualValues(t, 256, settings["n_ctx"])
	for _, name := range []string{"prompt_n", "prompt_ms", "prompt_per_second", "predicted_n",
		"predicted_ms", "predicted_per_second"} {
		require.Contains(t, timings, name)
	}
	require.Contains(t, code, "tokens_cached")
	require.Equal(t, false, code["truncated"])
}

// Holes have the length that the model finds, and bad requests are refused by name.
func TestEditorsInfill(t *testing.T) {
	url := one(t, "dreamon", growing(t))
	lengths := map[int]bool{}
	for seed := range 8 {
		status, _, data := post(t, url+"/infill", fmt.Sprintf(`{"input_prefix":"12 %d",
			"input_suffix":"17 18","n_predict":20,"temperature":1,"seed":%d}`, 20+7*seed, seed))
		require.Equal(t, 200, status, "%s", data)
		var full struct {
			Content   string
			Predicted int `json:"tokens_predicted"`
			Stop      bool
		}
		require.NoError(t, json.Unmarshal(data, &full))
		require.True(t, full.Stop)
		require.Len(t, strings.Fields(full.Content), full.Predicted)
		require.LessOrEqual(t, full.Predicted, 20)
		lengths[full.Predicted] = true
		words := strings.Fields(full.Content)
		if len(words) < 2 {
			continue
		}
		status, _, data = post(t, url+"/infill", fmt.Sprintf(`{"input_prefix":"12 %d",
			"input_suffix":"17 18","n_predict":20,"temperature":1,"seed":%d,"stop":["%s"]}`, 20+7*seed,
			seed, words[1]))
		require.Equal(t, 200, status, "%s", data)
		cut, _, _ := strings.Cut(full.Content, words[1])
		require.NoError(t, json.Unmarshal(data, &full))
		require.Equal(t, cut, full.Content)
	}
	require.Greater(t, len(lengths), 1, "holes have different lengths: %v", lengths)

	for body, want := range map[string]string{`{"n_predict":-1}`: "n_predict is -1, want 0 to",
		`{"input_extra":[3]}`: "input_extra has a number",
		`{"stream":true}`:     "stream is true, want false",
		`{"input_suffx":"x"}`: "input_suffx"} {
		status, _, data := post(t, url+"/infill", body)
		require.Equal(t, 400, status, body)
		require.Contains(t, string(data), want)
	}
}

// A hole of unknown length in /v1/infill and a suffix in /v1/completions: streams, answers and the
// library agree although positions move.
func TestGrowingHoles(t *testing.T) {
	m := growing(t)
	url := one(t, "dreamon", m)
	for _, seed := range []string{"1", "2", "3", "4"} {
		body := `{"text":"12 1` + seed + `[?]17 18","seed":` + seed + `,"temperature":1`
		a := ask(t, url+"/v1/infill", body+`}`)
		events := stream(t, url+"/v1/infill", body+`,"stream":"events","user":"u"}`)
		require.Equal(t, "done", events[len(events)-1].name)
		tokens := m.Text.Decode(a.Choices[0].Tokens)
		require.Contains(t, tokens, "17 18")
		require.NotContains(t, tokens, prompt.Hole)

		body = `{"prompt":"12 13","suffix":"17 18","max_tokens":9,"logprobs":1,"temperature":1,` +
			`"seed":` + seed
		whole := ask(t, url+"/v1/completions", body+`}`)
		sent := stream(t, url+"/v1/completions", body+`,"stream":true,"user":"u"}`)
		require.Equal(t, whole.Choices[0].Text, joined(t, sent, 0))
		n := len(strings.Fields(whole.Choices[0].Text))
		require.LessOrEqual(t, n, 9)
		if n < 9 { // the model chose the length
			require.Equal(t, "stop", whole.Choices[0].Finish)
		}
	}
	llada, err := unmask.LoadFS(os.DirFS("../testdata/packs/llada-tiny"), "llada",
		unmask.Options{Backend: plain.New()})
	require.NoError(t, err)
	status, _, data := post(t, one(t, "llada", llada)+"/v1/infill", `{"text":"12[?]13"}`)
	require.Equal(t, 400, status)
	require.Contains(t, string(data), "hole is [?], want a number of tokens")
}
