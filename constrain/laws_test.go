package constrain_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/constrain"
	"unmask/exact"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// marginalsOf returns the marginals of one sequence that is masked throughout, under a language.
func marginalsOf(l *constrain.Language, dense *model.Dense) *constrain.Marginals {
	length := l.EndPosition
	mask := int32(dense.Columns)
	q := &constrain.Sequence{Language: l, Mask: mask}
	q.BeginStep()
	q.BeginPass(slices.Repeat([]int32{mask}, length), slices.Clone(allRows[:length]))
	return &constrain.Marginals{Filtered: dense, Raw: dense, Outcomes: dense.Columns,
		Length: length, Sequence: func(int) *constrain.Sequence { return q }}
}

// sampleAll draws at rows of one sequence that is masked throughout, under a language.
func sampleAll(t require.TestingT, l *constrain.Language, dense *model.Dense, rows []int32,
	uniform []float64, power float64) *model.Draw {
	m := marginalsOf(l, dense)
	d := &model.Draw{Power: power, Uniform: uniform, Token: make([]int32, len(rows)),
		LogP: make([]float64, len(rows))}
	require.NoError(t, m.Sample(rows, d))
	return d
}

// allRows are more rows than a test has.
var allRows = []int32{0, 1, 2, 3, 4, 5, 6, 7}

// equalLanguages are expressions that hold the same texts of 6 letters, in automata that differ.
var equalLanguages = [][]string{
	{"[abc]*", "[abc]{0,6}", "(a|b|c){6}", "[abc]*|(ab)*"},
	{"(ab|c)*", "(ab|c){0,6}", "((ab)*c*)*"},
	{"[ab]*c[ab]*", "[ab]{0,5}c[ab]{0,5}"},
	{"((aa|b)c?)*", "((aa|b)c?){1,6}"},
}

// What is drawn depends on the law alone: not on how an automaton divides the vocabulary, nor on
// its states. Where a language excludes nothing, it is what is drawn without one.
func TestEqualLawsGiveEqualTokens(t *testing.T) {
	const tokens, length = 3, 6
	rapid.Check(t, func(t *rapid.T) {
		group := rapid.SampledFrom(equalLanguages).Draw(t, "languages")
		dense := &model.Dense{Columns: tokens, Logits: make([]float32, length*tokens)}
		for i := range dense.Logits {
			dense.Logits[i] = rapid.Float32Range(-4, 4).Draw(t, "logit")
		}
		rows := rapid.Permutation([]int32{0, 1, 2, 3, 4, 5}).Draw(t, "rows")
		rows = rows[:rapid.IntRange(1, length).Draw(t, "count")]
		uniform := make([]float64, len(rows))
		for i := range uniform {
			uniform[i] = rapid.Float64Range(0, 1).Draw(t, "uniform")
		}
		power := rapid.SampledFrom([]float64{1, 0.5, 3}).Draw(t, "power")

		want := sampleAll(t, language(t, group[0], tokens, length), dense, rows, uniform, power)
		if group[0] == "[abc]*" {
			want = &model.Draw{Power: power, Uniform: uniform, Token: make([]int32, len(rows)),
				LogP: make([]float64, len(rows))}
			require.NoError(t, dense.Sample(rows, want))
		}
		for _, expression := range group {
			got := sampleAll(t, language(t, expression, tokens, length), dense, rows, uniform, power)
			require.Equal(t, want.Token, got.Token, expression)
			require.InDeltaSlice(t, want.LogP, got.LogP, 1e-6, expression)
		}
	})
}

// So is the most probable text where several are equally probable.
func TestEqualLawsGiveEqualBestTexts(t *testing.T) {
	const tokens, length = 3, 6
	rapid.Check(t, func(t *rapid.T) {
		group := rapid.SampledFrom(equalLanguages).Draw(t, "languages")
		dense := &model.Dense{Columns: tokens, Logits: make([]float32, length*tokens)}
		for i := range dense.Logits {
			// -900 and -1000 have no probability, and -1000 is less likely all the same
			dense.Logits[i] = rapid.SampledFrom([]float32{0, 0, 1, -900, -1000}).Draw(t, "logit")
		}
		best := func(expression string) []int32 {
			stats := model.Stats{Arg: make([]int32, length), P1: make([]float64, length)}
			m := marginalsOf(language(t, expression, tokens, length), dense)
			require.NoError(t, m.Stats(allRows[:length], &stats))
			return stats.Arg
		}
		want := best(group[0])
		for _, expression := range group[1:] {
			require.Equal(t, want, best(expression), expression)
		}
	})
}

// runsOf returns the recipes of all samplers, each with caches and temperatures as far as the rule
// takes them, for a model and a language.
func runsOf(t *testing.T, d model.Denoiser, length int) map[string]generate.Recipe {
	recipes := map[string]generate.Recipe{}
	for _, info := range samplers.List() {
		for _, setting := range []string{"steps=1", "steps=6", "steps=3 cache=1",
			"steps=3 temperature=0", "steps=3 temperature=0.5 top-k=2"} {
			text := "sampler=" + info.Name + " " + setting
			r, err := generate.ParseRecipe(text)
			if err == nil {
				r, err = generate.Overrides{}.Complete(r, d, length)
			}
			if err == nil && r.CheckGrammar(d.Spec()) == nil {
				recipes[text] = r
			}
		}
	}
	require.Greater(t, len(recipes), 100)
	return recipes
}

// The same in whole runs, over all samplers, caches, temperatures and steps: of a model that is no
// product.
func TestRunsOfEqualLawsAreEqual(t *testing.T) {
	const tokens, length = 3, 6
	m, err := exact.Parse("markov:length=6,tokens=3,stay=0.6,sharp=1,seed=2")
	require.NoError(t, err)
	d := exact.NewDenoiser(m)
	opened := func(t *testing.T, recipe generate.Recipe, l *constrain.Language) (tokens []int32,
		logP []float64) {
		request := generate.Request{Recipe: recipe, Language: l, Seed: 5}
		for step, err := range generate.Run(context.Background(), d,
			generate.Options{Request: request, N: 4}) {
			require.NoError(t, err)
			for _, q := range step.Sequences {
				for _, o := range q.Opened {
					tokens = append(tokens, int32(o.Position), o.Token)
					logP = append(logP, o.LogP)
				}
			}
		}
		return tokens, logP
	}
	for text, recipe := range runsOf(t, d, length) {
		t.Run(text, func(t *testing.T) {
			for _, group := range equalLanguages {
				wantTokens, wantLogP := opened(t, recipe, language(t, group[0], tokens, length))
				if group[0] == "[abc]*" {
					wantTokens, wantLogP = opened(t, recipe, nil)
				}
				require.NotEmpty(t, wantTokens)
				for _, expression := range group {
					gotTokens, gotLogP := opened(t, recipe, language(t, expression, tokens, length))
					require.Equal(t, wantTokens, gotTokens, expression)
					for i := range wantLogP {
						require.InDelta(t, wantLogP[i], gotLogP[i], 1e-6)
					}
				}
			}
		})
	}
}
