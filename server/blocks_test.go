package server_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/generate"
)

// blockFamilies are block-diffusion models, which fill one block of a text after another.
var blockFamilies = map[string]chatFamily{
	"sdar": {"sdar-tiny", "dream.json", "model.embed_tokens.weight", "lm_head.weight", 480, 480, 464,
		462, chatFamilies["dream"].template, "<|endoftext|>"},
	"fast-dllm-v2": {"fast-dllm-v2-tiny", "dream.json", "model.embed_tokens.weight", "", 480, 480, 464,
		462, chatFamilies["dream"].template, "<|endoftext|>"},
	"llada2-moe": {"llada2-moe-tiny", "dream.json", "model.word_embeddings.weight", "lm_head.weight",
		480, 480, 464, 462, chatFamilies["dream"].template, "<|endoftext|>"},
}

// joined returns the text of a choice of OpenAI's stream.
func joined(t testing.TB, events []sseEvent, choice int) (text string) {
	require.Equal(t, "[DONE]", events[len(events)-1].data)
	for _, e := range events[:len(events)-1] {
		c := read(t, []byte(e.data)).Choices[0]
		if c.Index == choice {
			text += c.Text + c.Delta.Content
		}
	}
	return text
}

// Completions and conversations with block-diffusion models have the library's bytes, streamed or
// not, whatever shares their passes.
func TestBlockDiffusion(t *testing.T) {
	for name, family := range blockFamilies {
		t.Run(name, func(t *testing.T) {
			m := familyModel(t, name, family)
			require.Positive(t, m.Spec().Block)
			url := one(t, name, m)
			known := knownOf(t, m, unmask.Request{Prompt: "hello world"})
			given := slices.Index(known, m.Spec().Mask)
			end, _ := m.Text.Token(m.Spec().EndTokens[0])
			want := generated(t, m, generate.Options{Request: generate.Request{Seed: 7, Index: 1,
				Known: known[:given+21]}, N: 3}, 0)
			body := `{"prompt":"hello world","max_tokens":21,"seed":7,"n":3,"first":1`
			a := ask(t, url+"/v1/completions", body+`}`)
			events := stream(t, url+"/v1/completions", body+`,"stream":true,"user":"u","priority":"batch"}`)
			for i, c := range a.Choices {
				text, _, _ := strings.Cut(m.Text.Decode(want[i][given:]), end)
				require.Equal(t, text, c.Text)
				require.Equal(t, c.Text, joined(t, events, i))
			}
			trace := stream(t, url+"/v1/completions", body[:len(body)-len(`,"n":3,"first":1`)]+
				`,"stream":"events"}`)
			require.Equal(t, "start", trace[0].name)
			require.Equal(t, "done", trace[len(trace)-1].name)

			raw := unmask.Request{Prompt: "hello world", MaxTokens: 9}
			begun, err := m.Prepare(t.Context(), raw)
			require.NoError(t, err)
			of, made := m.AnswerOf(&raw, &begun), slices.Clone(known[:given+9])
			for i := given; i < len(made); i++ { // as blocks are filled after an end
				made[i] = m.Spec().EndTokens[0]
			}
			made[given] = 20
			require.Equal(t, "stop", of.Render(made).Finish)
			require.Equal(t, 1, of.Render(made).Count())
			require.Equal(t, m.Text.Decode(made[:given+1]), of.Render(made).Text)

			c, err := m.Chat()
			require.NoError(t, err)
			r := unmask.Request{Messages: json.RawMessage(`[{"role":"user","content":"hello"}]`)}
			q, err := m.Prepare(t.Context(), r)
			require.NoError(t, err)
			tokens := q.Known
			reply := generated(t, m, generate.Options{Request: generate.Request{Seed: 2, Known: tokens,
				EndTokens: c.EndTokens(), MaxLength: q.MaxLength, HasEnd: q.HasEnd}}, 0)[0]
			body = `{"messages":[{"role":"user","content":"hello"}],"seed":2`
			a = ask(t, url+"/v1/chat/completions", body+`}`)
			require.Equal(t, m.AnswerOf(&r, &q).Render(reply).Text, a.Choices[0].Message.Content)
			events = stream(t, url+"/v1/chat/completions", body+`,"stream":true}`)
			require.Equal(t, a.Choices[0].Message.Content, joined(t, events, 0))
		})
	}
}

// A block-diffusion model without a tokenizer, as its weights lie on disk.
func TestBareBlockDiffusion(t *testing.T) {
	m, err := unmask.Load(t.Context(), filepath.Join("..", "testdata", "packs", "sdar-tiny"),
		unmask.Options{Threads: 2})
	require.NoError(t, err)
	url := one(t, "sdar", m)
	mask := m.Spec().Mask
	known := append([]int32{3, 50, 99}, slices.Repeat([]int32{mask}, 18)...)
	want := generated(t, m, generate.Options{Request: generate.Request{Seed: 5, Known: known}}, 2)[0]
	a := ask(t, url+"/v1/completions", `{"prompt":[3,50,99],"max_tokens":18,"seed":5,"steps":2}`)
	require.Equal(t, asNumbers(want[3:]), a.Choices[0].Text)
	require.Equal(t, int32(150), mask)
	refusal{`{"prompt":[3,150]}`, 400, "unknown_token", "prompt",
		"token 150 at index 1, want 0 to 159, but not the mask 150"}.check(t, url+"/v1/completions")
}
