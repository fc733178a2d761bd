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
)

// growing returns DreamOn's pack. It has no tokenizer, so texts are numbers.
func growing(t *testing.T) *unmask.Model {
	t.Helper()
	m, err := unmask.LoadFS(os.DirFS("../testdata/packs/dreamon-tiny"), "dreamon",
		unmask.Options{Backend: plain.New()})
	require.NoError(t, err)
	return m
}

// What llama.vim sends (its g:llama_config defaults) and llama.vscode's fields get the answer that
// they read, and the hole has the length that the model finds.
func TestEditorsInfill(t *testing.T) {
	m := growing(t)
	url := one(t, "dreamon", m)
	vim := `{"id_slot":0,"input_prefix":"12 13 14\n","input_suffix":" 17 18","input_extra":[
		{"filename":"a.c","text":"5 6 7","time":1.5}],"prompt":"15 16","n_predict":12,"n_indent":0,
		"stop":[],"top_k":40,"top_p":0.9,"samplers":["top_k","top_p","infill"],"stream":false,
		"cache_prompt":true,"t_max_prompt_ms":500,"t_max_predict_ms":1000,"seed":3,
		"response_fields":["content","timings/prompt_n","timings/predicted_n","truncated",
		"generation_settings/n_ctx","tokens_cached"]}`
	status, _, data := post(t, url+"/infill", strings.ReplaceAll(vim, "\n", " "))
	require.Equal(t, 200, status, "%s", data)
	var short map[string]any
	require.NoError(t, json.Unmarshal(data, &short))
	require.Len(t, short, 6)
	require.EqualValues(t, 256, short["generation_settings/n_ctx"])
	require.Equal(t, false, short["truncated"])
	require.LessOrEqual(t, short["timings/predicted_n"], 12.0)

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
	}
	require.Greater(t, len(lengths), 1, "holes have different lengths: %v", lengths)

	for body, want := range map[string]string{`{"n_predict":0}`: "n_predict is 0, want 1 to",
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
		require.NotContains(t, tokens, unmask.Hole)

		body = `{"prompt":"12 13","suffix":"17 18","max_tokens":9,"logprobs":1,"temperature":1,` +
			`"seed":` + seed
		whole := ask(t, url+"/v1/completions", body+`}`)
		sent := stream(t, url+"/v1/completions", body+`,"stream":true,"user":"u"}`)
		require.Equal(t, whole.Choices[0].Text, joined(t, sent, 0))
		require.LessOrEqual(t, len(strings.Fields(whole.Choices[0].Text)), 9)
	}
	llada, err := unmask.LoadFS(os.DirFS("../testdata/packs/llada-tiny"), "llada",
		unmask.Options{Backend: plain.New()})
	require.NoError(t, err)
	status, _, data := post(t, one(t, "llada", llada)+"/v1/infill", `{"text":"12[?]13"}`)
	require.Equal(t, 400, status)
	require.Contains(t, string(data), "hole is [?], want a number of tokens")
}
