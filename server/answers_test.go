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
	"unmask/research/experiments"
	"unmask/research/tasks"
	"unmask/runs/outputs"
	"unmask/server"
	"unmask/testkit/requesttest"
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
				return requesttest.Shown(t, err == nil && rapid.Bool().Draw(t, "chats"))
			})
			made := 0
			for i := range 14 {
				if r := draw.Example(i); sameShown(t, h.URL, m, r) {
					made++
				}
			}
			require.Greater(t, made, 5)
		})
	}
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
	alone.Alone()
	var tokens []int32
	var settled []string
	for step, err := range generate.Each(t.Context(), m.Denoiser, generate.PoolOptions{Size: 1},
		slices.Values([]generate.Request{q})) {
		require.NoError(t, err, request)
		tokens = slices.Clone(step.Sequences[0].Tokens)
		settled = append(settled, alone.Settled(tokens))
	}
	want := alone.Shown(tokens)
	for _, text := range settled {
		require.True(t, strings.HasPrefix(want.Text, text), "%s: %q, then %q", request, text, want.Text)
	}

	j, err := outputs.Prepare(t.Context(), m, r, nil, 1, 0)
	require.NoError(t, err)
	require.NoError(t, j.MakeTexts(t.Context(), 0, 1, func(_ int, _ uint64, line []byte) error {
		var got outputs.TextRecord
		require.NoError(t, json.Unmarshal(line, &got))
		require.Equal(t, whole.Shown(tokens).Text, got.Text, request)
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
func sameTokens(t *testing.T, s *unmask.Shown, request string) {
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
