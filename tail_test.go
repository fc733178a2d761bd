package unmask_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask"
	"unmask/generate"
)

// loadWithTail returns a model whose authors put a token behind the masks, and which has room for
// answers that grow.
func loadWithTail(t *testing.T) *unmask.Model {
	files := tokenizerFolder(t, "rnd1-tiny", "null", nil, map[string]any{
		"max_position_embeddings": 2048, "pad_token_id": 101, "eos_token_id": 100})
	m, err := unmask.LoadFS(files, "rnd1", unmask.Options{Threads: 1})
	require.NoError(t, err)
	require.Equal(t, []int32{101}, m.Spec().Tail)
	return m
}

// Where something is known before or behind what is filled, the model's tail has the last position
// of the length and is not shown; where nothing is, there is none.
func TestTailBehindAText(t *testing.T) {
	m := loadWithTail(t)
	mask := m.Spec().Mask
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.StringMatching(`[ab]{0,6}`)
		var r unmask.Request
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			r.Prompt = words.Draw(t, "prompt")
			r.Suffix = words.Draw(t, "suffix")
		case 1:
			for range rapid.IntRange(0, 5).Draw(t, "tokens") {
				r.Tokens = append(r.Tokens, 4)
			}
		case 2:
			r.Infill = words.Draw(t, "before") + "[3]" + words.Draw(t, "behind")
		}
		if rapid.Bool().Draw(t, "with a length") {
			r.Length = rapid.IntRange(20, 60).Draw(t, "length")
		} else if r.Infill == "" {
			r.MaxTokens = rapid.IntRange(0, 60).Draw(t, "bound")
		}

		q, err := m.Prepare(context.Background(), r)
		require.NoError(t, err)
		isKnown := func(token int32) bool { return token != mask }
		answer := m.AnswerOf(&r, &q)
		shown := answer.Render(q.Known).Pieces()
		if r.Prompt+r.Suffix == "" && len(r.Tokens) == 0 && (r.Infill == "" || r.Infill == "[3]") {
			require.False(t, slices.ContainsFunc(q.Known, isKnown))
			require.Len(t, shown, answer.To)
			return
		}
		last := len(q.Known) - 1
		require.Equal(t, int32(101), q.Known[last])
		require.NotContains(t, q.Known[:last], int32(101))
		require.Len(t, shown, last)
		switch {
		case r.Length > 0:
			require.Len(t, q.Known, r.Length)
		case r.MaxTokens > 0:
			require.Equal(t, r.MaxTokens, m.Spec().CountMasked(q.Known))
		}
	})
}

// An answer that grows keeps its tail at the end, what opened before stays, and the changes that
// the steps report give its tokens.
func TestTailOfGrowingAnswers(t *testing.T) {
	loaded := loadWithTail(t)
	mask := loaded.Spec().Mask
	grown := 0
	rapid.Check(t, func(t *rapid.T) {
		m := *loaded
		m.AnswerLength = rapid.IntRange(4, 12).Draw(t, "usual length")
		r := unmask.Request{
			Prompt:    "ab",
			MaxTokens: rapid.IntRange(1, 40).Draw(t, "bound"),
			Seed:      rapid.Uint64Range(1, 9).Draw(t, "seed"),
			Overrides: generate.Overrides{"steps": "3"},
		}
		if r.MaxTokens < 3 {
			r.Overrides = nil
		}
		q, err := m.Prepare(context.Background(), r)
		require.NoError(t, err)
		known := slices.Clone(q.Known)
		answer := m.AnswerOf(&r, &q)
		var rendered *unmask.Rendered
		for step, err := range generate.Run(context.Background(), m.Denoiser,
			generate.Options{Request: q}) {
			require.NoError(t, err)
			s := step.Sequences[0]
			known = generate.ApplyResizes(known, s.Resized, mask)
			for _, o := range s.Opened {
				require.Equal(t, mask, known[o.Position])
				known[o.Position] = o.Token
			}
			require.Equal(t, known, s.Tokens)
			require.Equal(t, int32(101), s.Tokens[len(s.Tokens)-1])
			rendered = answer.Render(s.Tokens)
		}
		filled := len(known) - 3
		require.NotContains(t, known, mask)
		require.LessOrEqual(t, filled, r.MaxTokens)
		require.LessOrEqual(t, len(rendered.Tokens()), len(known)-1)
		if filled > m.AnswerLength {
			grown++
		}
		if rendered.Finish == "length" && !hasEndToken(&m, known) {
			require.Equal(t, r.MaxTokens, filled)
		}
	})
	require.Positive(t, grown)
}
