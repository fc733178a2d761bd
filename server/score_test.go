package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/likelihood"
	"unmask/model"
	"unmask/server"
)

// scoredAnswer is an answer with the log-probabilities of prompts.
type scoredAnswer struct {
	topAnswer
	Usage  struct{ Prompt, Completion int } `json:"-"`
	Unmask struct {
		Method string
		Passes int
		Errors []float64
	}
}

func score(t *testing.T, url, body string) (a scoredAnswer) {
	status, _, data := post(t, url+"/v1/completions", body)
	require.Equal(t, 200, status, "%s", data)
	require.NoError(t, json.Unmarshal(data, &a))
	return a
}

// The request of lm-evaluation-harness 0.4.13 (lm_eval/models/openai_completions.py): prompts of
// tokens, and one more token, which it drops. The sum over an answer's tokens, wherever it begins,
// is the chain rule from left to right, and its greatest value is a token's own where greedy
// decoding gives it.
func TestHarnessRequest(t *testing.T) {
	_, h := serving(t, server.Options{})
	m := loaded()["demo"]
	var prompts [][]int32
	contexts, answers := []string{"Lily was a brave", "Once upon a"}, []string{" girl.", " the"}
	for i, c := range contexts {
		ids, err := m.Text.Encode(c + answers[i])
		require.NoError(t, err)
		prompts = append(prompts, ids)
	}
	list, err := json.Marshal(prompts)
	require.NoError(t, err)
	a := score(t, h.URL, fmt.Sprintf(`{"model":"demo","prompt":%s,"temperature":0,"max_tokens":1,`+
		`"logprobs":1,"seed":1234,"echo":true}`, list))
	require.Len(t, a.Choices, 2)
	for i, c := range a.Choices {
		require.True(t, strings.HasPrefix(c.Text, contexts[i]+answers[i]), c.Text)
		require.Len(t, c.Logs.LogP, len(prompts[i])+1)
		request := unmask.Request{Prompt: contexts[i]}
		tokens, from, to, err := m.TokensWithAnswer(t.Context(), request, answers[i], nil)
		require.NoError(t, err)
		want, err := likelihood.Measure(t.Context(), m.Denoiser, tokens, from, to,
			likelihood.Options{Method: likelihood.LeftToRight})
		require.NoError(t, err)
		sum, greedy := 0.0, true
		for j := from; j < to; j++ {
			own, most := *c.Logs.LogP[j], *c.Logs.LogP[j]
			for _, l := range c.Logs.Top[j] {
				most = max(most, l)
			}
			sum, greedy = sum+own, greedy && own == most
		}
		require.InDelta(t, want.LogProb, sum, 1e-9)
		require.Equal(t, want.IsGreedy(tokens[from:to]), greedy)
		require.Equal(t, i == 0, greedy)
	}
	again := score(t, h.URL, `{"prompt":"Lily was a brave girl.","max_tokens":0,"logprobs":0,"echo":true}`)
	require.Equal(t, "Lily was a brave girl.", again.Choices[0].Text)
	require.Equal(t, a.Choices[0].Logs.LogP[:len(prompts[0])], again.Choices[0].Logs.LogP)
	require.Nil(t, again.Choices[0].Logs.Top)
}

// With a given beginning an answer may be measured by other methods: the sum of the shares is the
// estimate.
func TestScoreByOtherMethods(t *testing.T) {
	_, h := serving(t, server.Options{})
	m := loaded()["demo"]
	const context, answer = "Lily was a brave", " girl who had a little dog."
	request := unmask.Request{Prompt: context}
	tokens, from, to, err := m.TokensWithAnswer(t.Context(), request, answer, nil)
	require.NoError(t, err)
	want, err := likelihood.Measure(t.Context(), m.Denoiser, tokens, from, to,
		likelihood.Options{Method: likelihood.Stratified, Passes: 16, Seed: 5})
	require.NoError(t, err)
	a := score(t, h.URL, fmt.Sprintf(`{"prompt":%q,"max_tokens":0,"logprobs":1,"echo":true,`+
		`"answer_from":%d,"method":"stratified","passes":16,"seed":5}`, context+answer, from))
	sum := 0.0
	for i, l := range a.Choices[0].Logs.LogP {
		require.Equal(t, i < from, l == nil)
		if l != nil {
			sum += *l
		}
	}
	require.InDelta(t, want.LogProb, sum, 1e-9)
	require.Greater(t, want.Error, 0.0)
	require.InDelta(t, want.Error, a.Unmask.Errors[0], 1e-12)
	require.Equal(t, want.Passes, a.Unmask.Passes)
}

// A model that runs left to right scores a prompt in one pass; nothing predicts the first token.
func TestScoreOfLeftToRightModels(t *testing.T) {
	m, err := unmask.Load(t.Context(), filepath.Join("..", "testdata", "packs", "nemotron-labs-tiny"),
		unmask.Options{Threads: 1})
	require.NoError(t, err)
	url := one(t, "tiny", m)
	a := score(t, url, `{"prompt":[[5,6,7,8]],"max_tokens":1,"temperature":0,"logprobs":1,"echo":true}`)
	require.Len(t, a.Choices[0].Logs.LogP, 5)
	require.Nil(t, a.Choices[0].Logs.LogP[0])
	require.NotNil(t, a.Choices[0].Logs.LogP[1])
	require.Equal(t, 1, a.Unmask.Passes)
	status, _, data := post(t, url+"/v1/completions",
		`{"prompt":[5,6,7],"max_tokens":0,"logprobs":1,"echo":true,"method":"random"}`)
	require.Equal(t, 400, status)
	require.Contains(t, string(data), `method is random, want left-to-right: `)
}

func TestScoreRefusals(t *testing.T) {
	_, h := serving(t, server.Options{})
	long := strings.Repeat("1,", 255) + "1"
	for _, c := range []struct{ fields, code, name, message string }{
		{`"n":2`, "unsupported_parameter", "n", "n is 2, want 1"},
		{`"stream":true`, "unsupported_parameter", "stream", "stream is true, want false"},
		{`"steps":4`, "unknown_parameter", "steps", `unknown field "steps"`},
		{`"method":"best"`, "out_of_range", "method", `method is "best", want monte-carlo`},
		{`"passes":1`, "out_of_range", "passes", "passes is 1, want 2 to 65536"},
		{`"answer_from":9`, "out_of_range", "answer_from", "answer_from is 9, want 0 to 1"},
		{`"prompt":""`, "context_length_exceeded", "prompt", "prompt is 0 tokens, want 1 to 256"},
		{`"temperature":0,"max_tokens":1,"prompt":[` + long + `]`, "context_length_exceeded", "prompt",
			"prompt leaves no position to fill, want a shorter one or max_tokens 0"},
	} {
		body := map[string]json.RawMessage{}
		require.NoError(t, json.Unmarshal([]byte(`{"prompt":[3,4],"max_tokens":0,"logprobs":1,"echo":true}`),
			&body))
		require.NoError(t, json.Unmarshal([]byte(`{`+c.fields+`}`), &body))
		data, err := json.Marshal(body)
		require.NoError(t, err)
		status, _, data := post(t, h.URL+"/v1/completions", string(data))
		var got struct {
			Error struct{ Code, Param, Message string }
		}
		require.NoError(t, json.Unmarshal(data, &got))
		require.Equal(t, 400, status, "%s", data)
		require.Equal(t, c.code, got.Error.Code, c.fields)
		require.Equal(t, c.name, got.Error.Param, c.fields)
		require.True(t, strings.HasPrefix(got.Error.Message, c.message), got.Error.Message)
	}
}

// One request scores, decides or embeds at a time. With a queue of one, two of four are refused
// while the model is busy; the others end with their clients.
func TestVisitsWait(t *testing.T) {
	const questions = `"questions":[{"type":"predicate","instructions":"Good?"}]}`
	for route, body := range map[string]string{
		"/v1/completions": `{"prompt":"Lily","max_tokens":0,"logprobs":1,"echo":true}`,
		"/v1/decisions":   `{"input":"Lily",` + questions,
		"/v1/systemone":   `{"state":"Lily","questions":{"a":{"type":"noul","instructions":"Good?"}}}`,
		"/v1/embeddings":  `{"input":"Lily"}`,
	} {
		t.Run(route, func(t *testing.T) { visitsWait(t, route, body) })
	}
}

func visitsWait(t *testing.T, route, body string) {
	s, h := serving(t, server.Options{Queue: 1})
	lock := model.LockOf(loaded()["demo"].Denoiser)
	lock.Lock()
	unlock := sync.OnceFunc(lock.Unlock)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	statuses := make(chan int, 4)
	for range 4 {
		go func() {
			r, err := http.NewRequestWithContext(ctx, "POST", h.URL+route,
				strings.NewReader(body))
			if err == nil {
				r.Header.Set("Content-Type", "application/json")
				var got *http.Response
				if got, err = http.DefaultClient.Do(r); err == nil {
					got.Body.Close()
					statuses <- got.StatusCode
					return
				}
			}
			statuses <- 0
		}()
	}
	require.Equal(t, 429, <-statuses)
	require.Equal(t, 429, <-statuses)
	cancel()
	require.Zero(t, <-statuses)
	require.Zero(t, <-statuses)
	unlock()
	refused := 2
	for status := 429; status == 429; { // the handlers are told later than their clients
		if status, _, _ = post(t, h.URL+route, body); status == 429 {
			refused++
		}
		require.Contains(t, []int{200, 429}, status)
	}
	require.Contains(t, metrics(t, s),
		fmt.Sprintf(`unmask_requests_total{code="429",route="%s"} %d`, route, refused))
}

// The tokenizer's routes of vLLM, which evaluation harnesses use.
func TestTokenizerRoutes(t *testing.T) {
	_, h := serving(t, server.Options{})
	status, _, data := post(t, h.URL+"/tokenize", `{"prompt":"Lily was","add_special_tokens":false}`)
	require.Equal(t, 200, status, "%s", data)
	var tokens struct {
		Tokens []int32
		Count  int
	}
	require.NoError(t, json.Unmarshal(data, &tokens))
	require.Len(t, tokens.Tokens, tokens.Count)
	list, err := json.Marshal(tokens.Tokens)
	require.NoError(t, err)
	_, _, data = post(t, h.URL+"/detokenize", fmt.Sprintf(`{"tokens":%s}`, list))
	require.JSONEq(t, `{"prompt":"Lily was"}`, string(data))
	r, err := http.Get(h.URL + "/tokenizer_info")
	require.NoError(t, err)
	defer r.Body.Close()
	var info map[string]any
	require.NoError(t, json.NewDecoder(r.Body).Decode(&info))
	require.Contains(t, info, "eos_token")
	require.Equal(t, 256.0, info["model_max_length"])
}
