package server_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/generate"
	"unmask/model"
	"unmask/server"
)

// one serves a single model until the test ends.
func one(t testing.TB, name string, m *unmask.Model) (url string) {
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: name, Model: m}))
	h := httptest.NewServer(describedHandler(t, s.Handler()))
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return h.URL
}

// generated returns the tokens that the library makes of a run with some steps, 0 for the model's
// own, at most one for each hole.
func generated(t testing.TB, m *unmask.Model, r generate.Options, steps int) (tokens [][]int32) {
	d, err := m.Defaults()
	require.NoError(t, err)
	if d.Steps = min(d.Steps, m.Spec().CountMasked(r.Known)); steps > 0 {
		d.Steps = steps
	}
	r.Recipe = d
	for step, err := range generate.Run(t.Context(), m.Denoiser, r) {
		require.NoError(t, err)
		if step.Done {
			for _, q := range step.Sequences {
				tokens = append(tokens, append([]int32(nil), q.Tokens...))
			}
		}
	}
	return tokens
}

// asNumbers writes tokens as a model without a tokenizer does.
func asNumbers(tokens []int32) string {
	var b strings.Builder
	for _, id := range tokens {
		fmt.Fprintf(&b, "%d ", id)
	}
	return b.String()
}

// A model that brings no tokenizer takes token ids and answers with token ids.
func TestModelsWithoutATokenizer(t *testing.T) {
	of := loaded()["demo"]
	bare := unmask.NewModel(&model.Loaded{Denoiser: of.Denoiser}, of.Backend, nil)
	bare.Name = "bare"
	require.Nil(t, bare.Text)
	url := one(t, "bare", bare)

	_, _, data := get(t, url+"/v1/models/bare")
	require.Contains(t, string(data), `"kind":"tokens"`)

	mask := bare.Spec().Mask
	known := []int32{5, 900, 17, mask, mask, mask, mask, mask, mask, mask, mask}
	want := generated(t, bare, generate.Options{Request: generate.Request{Seed: 3, Known: known},
		N: 2}, 4)
	settings := `"max_tokens":8,"seed":3,"n":2,"steps":4`
	for _, prompt := range []string{`[5,900,17]`, `[[5,900,17]]`, `"5 900 17"`} {
		body := `{"prompt":` + prompt + `,` + settings
		a := ask(t, url+"/v1/completions", body+`}`)
		for i, c := range a.Choices {
			require.Equal(t, asNumbers(want[i][3:]), c.Text, prompt)
		}
		a = ask(t, url+"/v1/completions", body+`,"echo":true,"logprobs":1}`)
		require.Equal(t, asNumbers(want[1]), a.Choices[1].Text)
		text := [2]string{}
		events := stream(t, url+"/v1/completions", body+`,"stream":true}`)
		for _, e := range events[:len(events)-1] {
			c := read(t, []byte(e.data)).Choices[0]
			text[c.Index] += c.Text
		}
		require.Equal(t, [2]string{asNumbers(want[0][3:]), asNumbers(want[1][3:])}, text)
	}

	known = []int32{mask, mask, 8, mask, 9}
	want = generated(t, bare, generate.Options{Request: generate.Request{Seed: 4, Known: known}}, 2)
	for _, holes := range []string{`"tokens":[null,null,8,null,9]`, `"parts":[2,"8",1,"9"]`,
		`"text":"[2] 8 [1] 9"`} {
		a := ask(t, url+"/v1/infill", `{"seed":4,"steps":2,`+holes+`}`)
		require.Equal(t, want[0], a.Choices[0].Tokens, holes)
		require.Equal(t, asNumbers(want[0][3:4]), a.Choices[0].Holes[1].Text)
	}
	refusal{`{"prompt":"Lily"}`, 400, "out_of_range", "prompt", "want numbers 0 to 1023"}.check(t,
		url+"/v1/completions")
	refusal{`{"prompt":[5,1024]}`, 400, "unknown_token", "prompt",
		"at index 1, want 0 to 1023"}.check(t, url+"/v1/completions")
	refusal{`{"messages":[{"role":"user","content":"5"}]}`, 400, "no_chat_template", "model",
		"use /v1/completions"}.check(t, url+"/v1/chat/completions")
}
