package unmask_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
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

// growingModels returns models by name whose answers may grow.
func growingModels(t *testing.T) map[string]*unmask.Model {
	chat, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	models := map[string]*unmask.Model{"demo-chat": chat}
	for _, pack := range growingPacks {
		models[pack], err = unmask.LoadFS(tokenizerFolder(t, pack, "null", nil,
			map[string]any{"max_position_embeddings": 2048}), pack, unmask.Options{Threads: 1})
		require.NoError(t, err)
	}
	return models
}

// growingPacks are networks with each kind of blocks, and with causal passes.
var growingPacks = []string{"dream-tiny-bf16", "sdar-tiny", "fast-dllm-v2-tiny", "llada2-moe-tiny",
	"stable-diffcoder-tiny", "wedlm-7b-tiny", "nemotron-labs-tiny"}

// growingRecipes are recipes for these.
var growingRecipes = map[string][]generate.Overrides{
	"demo-chat": {
		{"sampler": "p2", "steps": "6"},
		{"sampler": "confidence", "steps": "5", "cache": "2"},
		{"sampler": "semi-ar(confidence, block=8)", "steps": "9"},
		{"sampler": "semi-ar(threshold, block=8)"},
		{"sampler": "moment", "steps": "4"},
		{"sampler": "wino(block=8)"},
		{"sampler": "semi-ar(entropy, block=8)", "steps": "8", "guidance": "1.5"},
		{"sampler": "daedal(start=8)"},
	},
	"dream-tiny-bf16": {
		{"steps": "7"},
		{"sampler": "semi-ar(confidence, block=8)", "steps": "12", "reuse": "dual"},
		{"sampler": "confidence", "steps": "8", "reuse": "dkv"},
		{"sampler": "semi-ar(greedy(threshold), block=8)", "reuse": "prefix"},
		{"sampler": "semi-ar(threshold, block=8)", "reuse": "block-dkv", "window": "8"},
		{"sampler": "greedy(multi-block(block=8))", "reuse": "finished"},
	},
	"sdar-tiny":             {{"steps": "3"}},
	"fast-dllm-v2-tiny":     {{}},
	"llada2-moe-tiny":       {{}},
	"stable-diffcoder-tiny": {{"steps": "3"}},
	"wedlm-7b-tiny": {
		{},
		{"sampler": "greedy(confidence)", "reuse": "causal", "block-size": "16"},
	},
	"nemotron-labs-tiny": {
		{},
		{"sampler": "low-confidence", "reuse": "causal", "block-size": "1"},
		{"sampler": "greedy(threshold)", "reuse": "causal"},
	},
}

// drawGrowing draws the name of a model and a recipe.
func drawGrowing(t *rapid.T) (name string, recipe generate.Overrides) {
	name = "demo-chat"
	if rapid.Bool().Draw(t, "is a pack") {
		name = rapid.SampledFrom(growingPacks).Draw(t, "pack")
	}
	return name, rapid.SampledFrom(growingRecipes[name]).Draw(t, "recipe")
}

// If an answer ends within its usual length, every bound at or above that gives the same bytes, the
// same passes and the same rows; if it does not, it grows up to the bound, and what stood on its
// first positions stays.
func TestBoundsChangeNothing(t *testing.T) {
	models := growingModels(t)
	ended, grown := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		name, recipe := drawGrowing(t)
		m := *models[name]
		m.AnswerLength = rapid.IntRange(12, 24).Draw(t, "usual length")
		r := unmask.Request{Overrides: recipe, Seed: rapid.Uint64Range(1, 9).Draw(t, "seed")}
		r.Stop = rapid.SampledFrom([][]string{nil, {"e"}, {"#"}}).Draw(t, "stop")
		if name == "demo-chat" {
			said := rapid.SampledFrom([]string{"Hello!", "Thanks!", "Tell me about Lily."}).Draw(t, "said")
			r.Messages = []byte(fmt.Sprintf(`[{"role":"user","content":%q}]`, said))
		} else {
			r.Tokens = []int32{4, 7, 6}
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

// If the text of a grammar fits on the usual length, every bound at or above that gives the same
// bytes, the same passes and the same rows. If it does not, it grows, and is whole under each
// bound.
func TestBoundsChangeNothingUnderGrammars(t *testing.T) {
	models := growingModels(t)
	quotes := tokensWith(models["demo-chat"], `"`)
	fitted := 0
	grown := 0
	rapid.Check(t, func(t *rapid.T) {
		name, recipe := drawGrowing(t)
		if recipe["sampler"] == "daedal(start=8)" || recipe["reuse"] == "causal" ||
			recipe["window"] != "" { // these take no grammar
			recipe = nil
		}
		if name == "stable-diffcoder-tiny" { // its mask spells b
			name = "llada2-moe-tiny"
			recipe = nil
		}
		m := *models[name]
		m.AnswerLength = rapid.IntRange(12, 24).Draw(t, "usual length")
		r := unmask.Request{Overrides: recipe, Seed: rapid.Uint64Range(1, 9).Draw(t, "seed")}
		isWhole := func(text string) bool { return json.Valid([]byte(text)) }
		if name == "demo-chat" {
			r.Messages = []byte(`[{"role":"user","content":"Tell me about Lily."}]`)
			r.Schema = []byte(`{"type":"array","items":{"type":"string","maxLength":40},"maxItems":3}`)
			bias := rapid.SampledFrom([]int{0, -4, -30}).Draw(t, "bias of quotes")
			r.Bias = []string{fmt.Sprintf("%s=%d", quotes, bias)}
		} else {
			r.Tokens = []int32{4, 7, 6}
			r.Regex = rapid.SampledFrom([]string{"(ab)+", "a(a| b){3,}b", "(a|b){2,16}"}).Draw(t, "regex")
			isWhole = regexp.MustCompile("^a b (" + r.Regex + ")$").MatchString // behind the prompt
			bias := rapid.SampledFrom([]int{0, -4, -30}).Draw(t, "bias of ends")
			for _, end := range m.Spec().EndTokens {
				r.Bias = append(r.Bias, fmt.Sprintf("%d=%d", end, bias))
			}
		}

		free := r
		free.MaxTokens = 200
		unbounded := runAnswer(t, &m, free)
		r.MaxTokens = rapid.IntRange(m.AnswerLength, 90).Draw(t, "bound")
		bounded := runAnswer(t, &m, r)
		require.LessOrEqual(t, len(bounded.filled), r.MaxTokens)
		require.True(t, isWhole(bounded.text), bounded.text)
		require.True(t, isWhole(unbounded.text), unbounded.text)
		require.Equal(t, "stop", bounded.finish)
		if len(unbounded.filled) == m.AnswerLength {
			fitted++
			require.Equal(t, unbounded, bounded)
		} else if r.MaxTokens > m.AnswerLength+8 {
			grown++
			require.Greater(t, len(bounded.filled), m.AnswerLength)
		}
	})
	require.Positive(t, fitted)
	require.Positive(t, grown)
}

// tokensWith returns the ids of the tokens whose texts have a part, as a list of a bias.
func tokensWith(m *unmask.Model, part string) string {
	var ids []string
	for id := range m.Spec().Outcomes {
		if text, _ := m.Text.Token(int32(id)); strings.Contains(text, part) {
			ids = append(ids, strconv.Itoa(id))
		}
	}
	return strings.Join(ids, ",")
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

// The longest of several choices has room as the shortest has, as far as the bound allows: one that
// did not fit would have the probability 0, however likely it is.
func TestChoicesHaveRoom(t *testing.T) {
	m, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	long := strings.Repeat(" no", 160)
	tokens, err := m.Text.Encode(long)
	require.NoError(t, err)
	require.Greater(t, len(tokens), m.AnswerLength)
	r := unmask.Request{
		Messages:  []byte(`[{"role":"user","content":"Hello!"}]`),
		Overrides: generate.Overrides{"sampler": "moment", "steps": "4"},
	}
	r.Choice = []string{"!", long}
	r.Bias = []string{fmt.Sprintf("%d=50", tokens[len(tokens)-1])} // so the long one is far likelier
	for _, bound := range []int{0, len(tokens) + 1, 4096} {
		r.MaxTokens = bound
		made := runAnswer(t, m, r)
		require.Equal(t, long, made.text, bound)
		require.Len(t, made.filled, len(tokens)+1)
	}
	r.MaxTokens = len(tokens) - 1
	require.Equal(t, "!", runAnswer(t, m, r).text)
	r.MaxTokens = 0
	r.Choice = []string{"yes", "no"}
	require.Len(t, runAnswer(t, m, r).filled, m.AnswerLength)
}
