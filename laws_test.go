package unmask_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend"
	"unmask/demo"
	"unmask/generate"
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
		require.InDelta(t, wantLogP[i], gotLogP[i], 1e-4, what...)
	}
}

// On the demo, whose texts have pads between sentences, what cannot occur is avoided without a
// trace: the tokens are those of a run without a language, over samplers and caches. So are those
// of a language of everything, and of constraints in another order.
func TestConstraintsThatExcludeNothing(t *testing.T) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{})
	require.NoError(t, err)
	for i, overrides := range []unmask.Overrides{
		{"sampler": "halton", "steps": "8"},
		{"sampler": "moment", "steps": "8", "cache": "1"},
		{"sampler": "maskgit", "steps": "4"},
		{"sampler": "low-confidence", "steps": "8"},
		{"sampler": "random", "steps": "8", "temperature": "0.7", "top-k": "20"},
	} {
		free := unmask.Request{Seed: uint64(i), Length: 64, Overrides: overrides}
		avoids := free
		avoids.Avoid = []string{"zzzz"}
		requireSameRuns(t, m, free, avoids, overrides)
		everything := free
		everything.Regex = `(?s:.)*`
		requireSameRuns(t, m, free, everything, overrides)
		several := free
		several.Avoid = []string{"qqqq", "zzzz"}
		reversed := free
		reversed.Avoid = []string{"zzzz", "qqqq"}
		requireSameRuns(t, m, several, reversed, overrides)

		written := free
		written.Regex = `[A-Z][a-z ]*\.( [A-Z][a-z ]*\.)*`
		otherwise := free
		otherwise.Regex = `([A-Z]([a-z]| )*[.] )*[A-Z]([a-z]| )*[.]`
		requireSameRuns(t, m, written, otherwise, overrides)
	}
}

// The same of networks with other tokenizers, in all precisions: one language in two spellings.
func TestLanguagesWrittenOtherwise(t *testing.T) {
	for _, pack := range []string{"llada-tiny", "sdar-tiny", "dream-tiny"} {
		for _, precision := range []backend.Precision{backend.F32, backend.BF16, backend.Int8} {
			m, err := unmask.LoadFS(os.DirFS("testdata/packs/"+pack), pack,
				unmask.Options{Precision: precision})
			require.NoError(t, err)
			written := unmask.Request{Seed: 3, Length: 24}
			written.Regex = `((2[0-9]|1(3[0-9]|40)) )*`
			otherwise := written
			otherwise.Regex = `((20|2[1-9]|13[0-8]|1(39|40)) )*`
			requireSameRuns(t, m, written, otherwise, pack, precision)
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
