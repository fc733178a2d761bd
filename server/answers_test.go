package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/prompt"
	"unmask/research/experiments"
	"unmask/research/tasks"
	"unmask/runs/outputs"
	"unmask/server"
)

// Every way to a text shows the same of the same tokens: the command's lines, an answer, a joined
// stream, a conversation and a task.
func TestWaysShowTheSame(t *testing.T) {
	s, h := serving(t, server.Options{})
	talk, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 2})
	require.NoError(t, err)
	for name, m := range map[string]*unmask.Model{"demo": loaded()["demo"], "demo-chat": talk,
		"dream": chatModel(t, "dream"), "caller": chatModel(t, "caller"),
		"sdar": familyModel(t, "sdar", blockFamilies["sdar"])} {
		t.Run(name, func(t *testing.T) {
			if name != "demo" {
				require.NoError(t, s.Add(server.Model{Name: name, Model: m}))
			}
			m.Name = name
			_, err := m.Chat()
			draw := rapid.Custom(func(t *rapid.T) unmask.Request {
				return drawShown(t, err == nil && rapid.Bool().Draw(t, "chats"))
			})
			made := 0
			for i := range 24 {
				if r := draw.Example(i); sameShown(t, h.URL, m, r) {
					made++
				}
			}
			require.Greater(t, made, 5)
		})
	}
}

// drawShown draws a request for a short text whose end is found in many ways: stop texts over the
// borders of tokens, end tokens, grammars and calls; samplers that edit and that close positions
// are among its samplers. chats says that it answers a message. Some are refused.
func drawShown(t *rapid.T, chats bool) unmask.Request {
	r := unmask.Request{Seed: rapid.Uint64Range(1, 1<<40).Draw(t, "seed"),
		MaxTokens: rapid.IntRange(4, 24).Draw(t, "max tokens"), Overrides: generate.Overrides{}}
	r.Overrides["sampler"] = oneOf(t, "sampler", "moment", "hybrid", "p2", "remdm", "gibbs",
		"semi-ar(random)", "eb(margin)", "confidence", "dynamic", "edit(theta=0.05,edit=0.01,post=4)",
		"greedy(edit(theta=0.05,edit=0.01,post=4))", "semi-ar(low-confidence,block=4)",
		"credit", "wino(wide=0.1,block=8)", "multi-block(block=4)", "daedal(start=4,grow=3,low=0.4)",
		"semi-ar(draft,block=4)", "semi-ar(dilated,block=8)", "dilated(least=0.3)",
		"semi-ar(spaced(threshold(theta=0.1)),block=8)", "semi-ar(entropy-threshold,block=4)")
	r.Overrides["steps"] = oneOf(t, "steps", "3", "4", "8")
	if strings.HasPrefix(r.Overrides["sampler"], "semi-ar") {
		if oneOf(t, "window", append([]string{"3"}, make([]string, 9)...)...) != "" {
			r.Overrides["window"] = "3"
		}
	}
	if chats {
		r.Messages = json.RawMessage(`[{"role":"user","content":"Tell me about Tom."}]`)
	} else {
		r.Prompt = oneOf(t, "prompt", "", "Once upon", "ok \u00e9 \U0001F642")
		r.Suffix = oneOf(t, "suffix", "", "", "", " the end.")
	}
	r.Stop = oneOf(t, "stop", nil, nil, []string{"e"}, []string{"th", "an"}, []string{" Th", "\u00e9"},
		[]string{"ll", "o", "\n"}, []string{"\U0001F642"})
	if oneOf(t, "cut", false, false, true) {
		r.Cut, r.End = true, oneOf(t, "end", "", "13")
	}
	switch oneOf(t, "grammar", "", "", "", "schema", "regex", "avoid", "choice", "calls") {
	case "schema":
		r.Schema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"boolean"}},` +
			`"required":["a"],"additionalProperties":false}`)
	case "regex":
		r.Regex = "[a-z]{1,3}( [a-z\u00e9]{1,4}){1,2}"
	case "avoid":
		r.Avoid = []string{"e.*a", "[A-Z]"}
	case "choice":
		r.Choice = []string{" girl", " boy", "\U0001F642"}
	case "calls":
		if chats {
			const parameters = `{"enum":[{},{"toy":"ball"}]}`
			r.Tools = json.RawMessage(`[{"type":"function","function":{"name":"find","parameters":` +
				parameters + `}}]`)
			r.Calls = &prompt.Calls{Functions: []prompt.Function{{Name: "find",
				Parameters: json.RawMessage(parameters)}}}
			r.MaxTokens = 40
		}
	}
	return r
}

func oneOf[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, name)
}

// sameShown compares what all ways show of a request, and reports whether it was not refused.
func sameShown(t *testing.T, url string, m *unmask.Model, r unmask.Request) bool {
	q, err := m.Prepare(t.Context(), r)
	if err != nil {
		return false
	}
	data, err := json.Marshal(r)
	require.NoError(t, err)
	request := string(data)
	whole, alone := m.AnswerOf(&r, &q), m.AnswerOf(&r, &q)
	alone.HidePrompt()
	var tokens []int32
	var settled []string
	for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: 1},
		slices.Values([]generate.Request{q})) {
		require.NoError(t, err, request)
		q := step.Sequences[0]
		tokens = slices.Clone(q.Tokens)
		settled = append(settled, alone.Settled(tokens, q.Settled))
	}
	want := alone.Render(tokens)
	for i, text := range settled {
		require.True(t, i == 0 || strings.HasPrefix(text, settled[i-1]), "%s: %q", request, settled)
		require.True(t, strings.HasPrefix(want.Text, text), "%s: %q, then %q", request, text, want.Text)
	}

	j, err := outputs.Prepare(t.Context(), m, r, nil, 1, 0)
	require.NoError(t, err)
	require.NoError(t, j.MakeTexts(t.Context(), 0, 1, func(_ int, _ uint64, line []byte) error {
		var got outputs.TextRecord
		require.NoError(t, json.Unmarshal(line, &got))
		require.Equal(t, whole.Render(tokens).Text, got.Text, request)
		return nil
	}))
	require.Equal(t, want.Text, taskText(t, m, r), request)

	kind, http := httpRequest(t, m, r)
	body, err := io.ReadAll(http.Body)
	require.NoError(t, err)
	path := map[string]string{"chat": "/v1/chat/completions", "completions": "/v1/completions"}[kind]
	more := `,"logprobs":1}`
	if kind == "chat" {
		more = `,"logprobs":true}`
	}
	a := ask(t, url+path, string(bytes.TrimSuffix(body, []byte("}")))+more)
	events := stream(t, url+path, string(bytes.TrimSuffix(body, []byte("}")))+`,"stream":true}`)
	got := a.Choices[0]
	require.Equal(t, want.Count(), a.Usage.Completion, request)
	if kind == "completions" {
		require.Equal(t, want.Text, got.Text, request)
		require.Equal(t, want.Text, joined(t, events, 0), request)
		require.Equal(t, want.Finish, got.Finish, request)
	} else if r.Calls == nil {
		require.Equal(t, want.Text, got.Message.Content, request)
		require.Equal(t, want.Text, joined(t, events, 0), request)
	}
	sameTokens(t, want, request)
	return true
}

// taskText returns the answer to a request as a task.
func taskText(t *testing.T, m *unmask.Model, r unmask.Request) string {
	task, err := tasks.New(m, []tasks.Item{{ID: "1", Kind: "python", Input: unmask.InputOf(r)}},
		unmask.Request{})
	require.NoError(t, err)
	point := experiments.Point{Sampler: r.Overrides["sampler"], Steps: 4, N: 1, Batch: 1, Seed: r.Seed}
	result, err := task.Run(t.Context(), point, nil)
	require.NoError(t, err)
	return result.Answers[0].Text
}

// sameTokens requires one entry for each token of a text, with its bytes and its place.
func sameTokens(t *testing.T, s *unmask.Rendered, request string) {
	text := ""
	for _, token := range s.Tokens() {
		at := 0 // characters before the token
		for size := 0; at < len(text) && size < len(text); at++ {
			_, n := utf8.DecodeRuneInString(text[size:])
			if size += n; !utf8.FullRuneInString(text[size-n:]) {
				break
			}
		}
		require.Equal(t, at, token.Offset, "%s: %q", request, text)
		text += token.Bytes
	}
	require.True(t, strings.HasPrefix(text, s.Text), "%s: %q of %q", request, text, s.Text)
}
