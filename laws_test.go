package unmask_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend"
	"unmask/demo"
	"unmask/generate"
	"unmask/samplers"
)

// openedBy returns the tokens that a run opens in each step, and their probabilities.
func openedBy(t *testing.T, m *unmask.Model, r unmask.Request) (tokens []int32, logP []float64) {
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	for step, err := range generate.Run(context.Background(), m.Denoiser,
		generate.Options{Request: q, N: 2}) {
		require.NoError(t, err)
		for _, s := range step.Sequences {
			for _, o := range s.Opened {
				tokens = append(tokens, int32(o.Position), o.Token)
				logP = append(logP, o.LogP)
			}
		}
	}
	return tokens, logP
}

// requireSameRuns requires that two requests open the same tokens with the same probabilities.
func requireSameRuns(t *testing.T, m *unmask.Model, want, got unmask.Request, what ...any) {
	wantTokens, wantLogP := openedBy(t, m, want)
	gotTokens, gotLogP := openedBy(t, m, got)
	require.NotEmpty(t, wantTokens, what...)
	require.Equal(t, wantTokens, gotTokens, what...)
	for i := range wantLogP {
		require.InDelta(t, wantLogP[i], gotLogP[i], 1e-6, what...)
	}
}

// runsOf returns the overrides of all samplers, each with caches and filters, with which a model
// follows a grammar.
func runsOf(t *testing.T, m *unmask.Model, length int, steps string) (list []unmask.Overrides) {
	for _, info := range samplers.List() {
		for _, setting := range []unmask.Overrides{
			{},
			{"cache": "1"},
			{"temperature": "0.7", "top-k": "20"},
		} {
			overrides := unmask.Overrides{"sampler": info.Name, "steps": steps}
			maps.Copy(overrides, setting)
			r := unmask.Request{Length: length, Overrides: overrides}
			r.Avoid = []string{"zzzz"}
			if _, err := m.Prepare(t.Context(), r); err == nil {
				list = append(list, overrides)
			}
		}
	}
	require.Greater(t, len(list), 50)
	return list
}

// On the demo, whose texts have pads between sentences, what cannot occur is avoided without a
// trace: the tokens are those of a run without a language, under all samplers, with caches and
// filters. Nor does a language show how it is written, or constraints their order.
func TestConstraintsThatExcludeNothing(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	const length = 32
	for i, overrides := range runsOf(t, m, length, "4") {
		free := unmask.Request{Seed: uint64(i), Length: length, Overrides: overrides}
		avoids := free
		avoids.Avoid = []string{"zzzz"}
		requireSameRuns(t, m, free, avoids, overrides)
		if i%8 > 0 { // these take as long again
			continue
		}
		several := free
		several.Avoid = []string{" dog", " cat"}
		reversed := free
		reversed.Avoid = []string{" cat", " dog"}
		requireSameRuns(t, m, several, reversed, overrides)

		written := free
		written.Regex = `[A-Z][a-z ]*\.( [A-Z][a-z ]*\.)*`
		otherwise := free
		otherwise.Regex = `([A-Z]([a-z]| )*[.] )*[A-Z]([a-z]| ){0,400}[.]`
		requireSameRuns(t, m, written, otherwise, overrides)
	}
}

// The same of answers, which have ends and what stands behind them.
func TestAnswersThatAvoidNothing(t *testing.T) {
	m, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{})
	require.NoError(t, err)
	for i, overrides := range []unmask.Overrides{
		{},
		{"sampler": "p2", "steps": "32"},
		{"sampler": "random", "steps": "16"},
		{"sampler": "semi-ar(low-confidence,block=16)", "steps": "32"},
	} {
		free := unmask.Request{Seed: uint64(i), Overrides: overrides}
		free.Messages = json.RawMessage(`[{"role": "user", "content": "Hello!"}]`)
		avoids := free
		avoids.Avoid = []string{"zzzz"}
		requireSameRuns(t, m, free, avoids, overrides)
	}
}

// The same of networks with other tokenizers, in all precisions and under all samplers: one
// language in two spellings.
func TestLanguagesWrittenOtherwise(t *testing.T) {
	const length = 24
	for _, pack := range []string{"llada-tiny", "sdar-tiny", "dream-tiny"} {
		for _, precision := range []backend.Precision{backend.F32, backend.BF16, backend.Int8} {
			m, err := unmask.LoadFS(os.DirFS("testdata/packs/"+pack), pack,
				unmask.Options{Precision: precision})
			require.NoError(t, err)
			for i, overrides := range append(runsOf(t, m, length, "4"), nil) { // and its own
				if overrides != nil && i%3 != int(precision)%3 { // each in one of the precisions
					continue
				}
				written := unmask.Request{Seed: uint64(i), Length: length, Overrides: overrides}
				written.Regex = `((2[0-9]|1(3[0-9]|40)) )*`
				otherwise := written
				otherwise.Regex = `((20|2[1-9]|13[0-8]|1(39|40)) ){0,24}`
				requireSameRuns(t, m, written, otherwise, pack, precision, overrides)
			}
		}
	}
}

// A network that has fewer tokens than its tokenizer, and so not the one that ends a text, follows
// a grammar too.
func TestGrammarWithoutItsEndToken(t *testing.T) {
	m, err := unmask.LoadFS(os.DirFS("testdata/packs/sdtt-tiny"), "sdtt-tiny", unmask.Options{})
	require.NoError(t, err)
	r := unmask.Request{Seed: 1, Overrides: unmask.Overrides{"steps": "8"}}
	r.Regex = `[a-z]{20,60}`
	made, err := m.Write(t.Context(), r)
	require.NoError(t, err)
	require.Regexp(t, `^[a-z]{20,60}$`, made.Text)
}
