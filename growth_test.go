package unmask_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/testkit/refusal"
)

// grownAnswer is what a request makes.
type grownAnswer struct {
	text   string
	finish string
	filled []int32
	work   generate.Work
	steps  int
}

// runAnswer runs a request alone.
func runAnswer(t require.TestingT, m *unmask.Model, r unmask.Request) grownAnswer {
	ctx := context.Background()
	q, err := m.Prepare(ctx, r)
	require.NoError(t, err)
	answer := m.AnswerOf(&r, &q)
	var made grownAnswer
	options := generate.PoolOptions{Size: 1, Guided: q.Guidance.Scale != 0}
	length := q.Length
	for step, err := range generate.Each(ctx, m.Denoiser, options,
		slices.Values([]generate.Request{q})) {
		require.NoError(t, err)
		s := step.Sequences[0]
		require.Equal(t, length, s.LengthBefore)
		for _, resize := range s.Resized {
			if resize.Position < length { // in place of a position, and not at the end
				length--
			}
			length += resize.Into
		}
		require.Len(t, s.Tokens, length)
		rendered := answer.Render(s.Tokens)
		made = grownAnswer{text: rendered.Text, finish: rendered.Finish, work: s.Work, steps: s.N,
			filled: slices.Clone(s.Tokens[answer.From:])}
	}
	require.NotContains(t, made.filled, m.Spec().Mask)
	return made
}

// If an answer ends within its usual length, every bound at or above that gives the same bytes, the
// same passes and the same rows; if it does not, it grows up to the bound, and what stood on its
// first positions stays.
func TestBoundsChangeNothing(t *testing.T) {
	chat, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	models := map[string]*unmask.Model{"demo-chat": chat}
	for _, pack := range []string{"dream-tiny-bf16", "sdar-tiny"} {
		models[pack], err = unmask.LoadFS(tokenizerFolder(t, pack, "null", nil,
			map[string]any{"max_position_embeddings": 2048}), pack, unmask.Options{Threads: 1})
		require.NoError(t, err)
	}
	recipes := map[string][]generate.Overrides{
		"demo-chat": {
			{"sampler": "p2", "steps": "6"},
			{"sampler": "confidence", "steps": "5", "cache": "2"},
			{"sampler": "semi-ar(confidence, block=8)", "steps": "9"},
			{"sampler": "semi-ar(threshold, block=8)"},
			{"sampler": "moment", "steps": "4"},
			{"sampler": "daedal(start=8)"},
		},
		"dream-tiny-bf16": {
			{"steps": "7"},
			{"sampler": "semi-ar(confidence, block=8)", "steps": "12", "reuse": "dual"},
			{"sampler": "confidence", "steps": "8", "reuse": "dkv"},
		},
		"sdar-tiny": {
			{"steps": "3"},
		},
	}
	ended, grown := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"demo-chat", "dream-tiny-bf16", "sdar-tiny"}).Draw(t, "model")
		m := *models[name]
		m.AnswerLength = rapid.IntRange(12, 24).Draw(t, "usual length")
		recipe := rapid.SampledFrom(recipes[name]).Draw(t, "recipe")
		r := unmask.Request{Overrides: recipe, Seed: rapid.Uint64Range(1, 9).Draw(t, "seed")}
		r.Stop = rapid.SampledFrom([][]string{nil, {"e"}, {"#"}}).Draw(t, "stop")
		if name == "demo-chat" {
			said := rapid.SampledFrom([]string{"Hello!", "Thanks!", "Tell me about Lily."}).Draw(t, "said")
			r.Messages = []byte(fmt.Sprintf(`[{"role":"user","content":%q}]`, said))
		} else {
			r.Tokens = []int32{4, 7, 5}
		}

		first := r
		first.Canvas = m.AnswerLength
		onFirst := runAnswer(t, &m, first)
		r.MaxTokens = rapid.IntRange(m.AnswerLength, 90).Draw(t, "bound")
		bounded := runAnswer(t, &m, r)
		require.LessOrEqual(t, len(bounded.filled), r.MaxTokens)
		if findsLength := recipe["sampler"] == "daedal(start=8)"; findsLength {
			return
		}

		require.Equal(t, onFirst.filled, bounded.filled[:m.AnswerLength])
		if onFirst.finish == "stop" {
			ended++
			require.Equal(t, onFirst, bounded)
			return
		}
		if len(bounded.filled) > m.AnswerLength {
			grown++
			require.Greater(t, bounded.steps, onFirst.steps)
		}
		if bounded.finish == "length" && !hasEndToken(&m, bounded.filled) {
			require.Len(t, bounded.filled, r.MaxTokens)
		}
	})
	require.Positive(t, ended)
	require.Positive(t, grown)
}

// hasEndToken reports whether some tokens have one that ends a text of the model.
func hasEndToken(m *unmask.Model, tokens []int32) bool {
	return slices.ContainsFunc(tokens, func(token int32) bool {
		return slices.Contains(m.Spec().EndTokens, token)
	})
}

// A grammar's shortest text has room under a bound, however short an answer usually is; a bound
// below it is refused by its name.
func TestGrammarsHaveRoom(t *testing.T) {
	m, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	value := strings.Repeat("Zq", 75)
	r := unmask.Request{
		Messages:  []byte(`[{"role":"user","content":"Hello!"}]`),
		Overrides: generate.Overrides{"sampler": "moment", "steps": "4"},
		MaxTokens: 4096,
	}
	r.Schema = []byte(fmt.Sprintf(`{"type":"object","properties":{"a":{"const":%q},
		"b":{"const":%q}},"required":["a","b"],"additionalProperties":false}`, value, value))
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	shortest := int(q.Language.MinTokens[q.Language.Start])
	require.Greater(t, shortest, 300)
	made := runAnswer(t, m, r)
	require.Equal(t, "stop", made.finish)
	var object map[string]string
	require.NoError(t, json.Unmarshal([]byte(made.text), &object))
	require.Equal(t, map[string]string{"a": value, "b": value}, object)

	r.MaxTokens = shortest
	require.Len(t, runAnswer(t, m, r).filled, shortest)
	r.MaxTokens = shortest - 1
	_, err = m.Prepare(t.Context(), r)
	refusal.Require(t, err, "length", fmt.Sprintf("%d tokens to fill", shortest-1))
}
