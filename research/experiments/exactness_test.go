package experiments

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// letters returns a text task whose model and judge are one chain of letters.
func letters(length int) Task {
	m := exact.Letters(length)
	return TextTask(exact.NewDenoiser(m), exact.Judge{Model: m}, nil)
}

// scored returns the metrics of samples by the truth.
func scored(t *testing.T, task Task, samples [][]int32) Metrics {
	s := task.Scorer(len(samples))
	require.NoError(t, s.Add(t.Context(), samples))
	m, err := s.Metrics(t.Context())
	require.NoError(t, err)
	return m
}

// Intervals of samples of the truth have 0 inside in about 95 of 100 cases; those of independent
// letters are around the information that a letter has about the next.
func TestTransitionsOfTheTruth(t *testing.T) {
	task := letters(64)
	m := task.Model.(*exact.Denoiser).Model
	k := m.Tokens()
	pairs, single := m.Pairs(), make([]float64, k)
	for i, p := range pairs {
		single[i/k] += p
	}
	information, apart := 0.0, 0.0
	for i, p := range pairs {
		q := single[i/k] * single[i%k]
		information += q * math.Log(q/p)
		apart += math.Abs(p-q) / 2
	}
	const n, tries = 60, 20
	inside, above := 0, 0
	for seed := range uint64(tries) {
		var truth, independent [][]int32
		for i := range uint32(n) {
			x := m.Sample(seed, i)
			truth = append(truth, x)
		}
		for i := range truth { // a letter each of other samples: neighbours are independent
			x := make([]int32, len(truth[0]))
			for at := range x {
				x[at] = truth[(i+7*at)%n][at]
			}
			independent = append(independent, x)
		}
		got := scored(t, task, truth)
		kl := got["transition_kl"]
		if kl.Low <= 0 && 0 <= kl.High {
			inside++
		}
		require.InDelta(t, 0, kl.Value, 0.05)
		require.Zero(t, got["duplicates"].Value)
		require.InDelta(t, 2.214, got["nll"].Value, 0.1)

		got = scored(t, task, independent)
		kl, tv := got["transition_kl"], got["transition_tv"]
		require.InDelta(t, information, kl.Value, 0.25*information)
		require.InDelta(t, apart, tv.Value, 0.1*apart)
		require.Less(t, kl.High-kl.Low, 0.5*information)
		if kl.Low <= information && information <= kl.High {
			above++
		}
	}
	require.GreaterOrEqual(t, inside, 15)
	require.GreaterOrEqual(t, above, 15)
}

// Two samples have a divergence and bounds of it, though some resamples are empty.
func TestTransitionsOfTwoSamples(t *testing.T) {
	m := scored(t, letters(4), [][]int32{{19, 7, 4, 26}, {0, 13, 3, 26}})
	for _, name := range []string{"transition_kl", "transition_tv"} {
		require.Less(t, m[name].Low, m[name].High, name)
	}
}

// What low confidence writes at temperature 0 is one text, probable and wrong; one position a step
// at random is right.
func TestExactnessFindsWhatIsWrong(t *testing.T) {
	task := letters(32)
	results := map[string]Metrics{}
	list := Exactness{N: 64, Steps: []int{4, 32}, Samplers: []Point{{Sampler: "low-confidence"},
		{Sampler: "low-confidence(temperature=1)"}, {Sampler: "random"}, {Sampler: "first-hitting"}}}
	points := list.Points()
	require.Len(t, points, 7)
	var all []Result
	for _, p := range points {
		r, err := MeasurePoint(t.Context(), task, p, nil)
		require.NoError(t, err)
		all, results[p.String()] = append(all, r), r.Metrics
	}
	still := results["low-confidence, 32 steps, seed 0"]
	require.InDelta(t, 63.0/64, still["duplicates"].Value, 1e-12)
	require.Greater(t, still["transition_kl"].Low, 1.5)
	require.Less(t, still["nll"].Value, 2.0)
	require.Greater(t, results["low-confidence(temperature=1), 32 steps, seed 0"]["transition_kl"].Low,
		0.5)
	one := results["random, 32 steps, seed 0"]["transition_kl"]
	require.Less(t, one.Low, 0.01)
	require.Greater(t, results["random, 4 steps, seed 0"]["transition_kl"].Low, one.High)

	table := ExactnessTable(all)
	require.Equal(t, 9, strings.Count(table, "\n")) // rows, two heads of two lines, a blank line
	require.Contains(t, table, "| sampler | KL, 4 steps | KL, 32 steps |")
	chart := ExactnessChart(all)
	require.Len(t, chart.Curves, 4)
	_, err := chart.SVG()
	require.NoError(t, err)
}

// All rules for text can run, each once.
func TestExactnessHasAllSamplers(t *testing.T) {
	points := Exactness{N: 2}.Points()
	require.NoError(t, CheckPoints(letters(128), points))
	for _, info := range samplers.List() {
		want := !slices.Contains(otherModelRules, info.Name) && info.Name != fixedName
		require.Equal(t, want, slices.ContainsFunc(points, func(p Point) bool {
			return p.Sampler == info.Name
		}), info.Name)
	}
	for _, p := range points {
		_, err := generate.ParseRecipe("sampler=" + p.Sampler)
		require.NoError(t, err)
	}
}

func TestParseMethods(t *testing.T) {
	got, err := ParseMethods("random, moment(alpha=3),semi-ar(eb(margin, budget=2), block=8), halton+cache")
	require.NoError(t, err)
	require.Equal(t, []Point{{Sampler: "random"}, {Sampler: "moment(alpha=3)"},
		{Sampler: "semi-ar(eb(margin,budget=2),block=8)"}, {Sampler: "halton", Cache: 1}}, got)
	_, err = ParseMethods("random,nothing")
	require.ErrorContains(t, err, "nothing")
	_, err = ParseMethods(" ,")
	require.ErrorContains(t, err, "sampler")
}

// The exact model's log-moments are those of its marginals, and its partial passes are exact, so
// that reuse changes no token.
func TestExactMomentsAndReuse(t *testing.T) {
	m := exact.Letters(24)
	d := exact.NewDenoiser(m)
	x := m.Sample(3, 0)
	for i := range x {
		if i%3 != 0 {
			x[i] = int32(m.Tokens())
		}
	}
	p := make([]float64, len(x)*m.Tokens())
	m.Conditionals(p, x)
	rows := []int32{1, 2, 7, 23}
	marginals, err := d.Forward(t.Context(), &model.Batch{Size: 1, Length: len(x), Tokens: x,
		ReadRows: rows})
	require.NoError(t, err)
	s := model.Stats{Beta: 3, LogMoment: make([]float64, len(rows)),
		Entropy: make([]float64, len(rows))}
	require.NoError(t, marginals.Stats(rows, &s))
	for i, row := range rows {
		sum, nats := 0.0, 0.0
		for _, v := range p[int(row)*m.Tokens():][:m.Tokens()] {
			sum += math.Pow(v, 3)
			nats -= v * math.Log(v)
		}
		require.InDelta(t, math.Log(sum), s.LogMoment[i], 1e-4)
		require.InDelta(t, nats, s.Entropy[i], 1e-4)
	}

	made := func(recipe string) (tokens [][]int32) {
		r, err := generate.ParseRecipe(recipe)
		require.NoError(t, err)
		for q, err := range generate.Samples(t.Context(), d,
			generate.Options{Request: generate.Request{Recipe: r, Seed: 4}, N: 6}) {
			require.NoError(t, err)
			tokens = append(tokens, q.Tokens)
		}
		return tokens
	}
	for _, pair := range [][2]string{{"sampler=u-moment steps=6", "reuse=dkv refresh=3"},
		{"sampler=semi-ar(hybrid,block=8) steps=6", "reuse=dual"},
		{"sampler=semi-ar(hybrid,block=8) steps=6", "reuse=prefix"}} {
		require.Equal(t, made(pair[0]), made(pair[0]+" "+pair[1]), pair[1])
	}
	require.NotEqual(t, made("sampler=u-moment steps=6"), made("sampler=u-moment steps=6 cache=1"))
}
