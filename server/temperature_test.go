package server_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/generate"
)

// tokensAt returns the tokens of a completion of a pack's published run with other fields.
func tokensAt(t *testing.T, url, fields string) []string {
	a := ask(t, url+"/v1/completions", `{"prompt":[3,50,99],"max_tokens":16`+fields+`}`)
	var out []string
	for _, c := range a.Choices {
		out = append(out, c.Text)
	}
	return out
}

// A temperature means in every published run what its authors' program means by it: 0 is the most
// probable tokens, the same each time and without a seed; above it seeds differ.
func TestTemperatureOfPublishedRuns(t *testing.T) {
	for _, c := range []struct {
		pack, steps, greedy string // greedy is the authors' run at temperature 0
		temperature         string
	}{
		{"llada-tiny", `,"steps":8`, "semi-ar(low-confidence) schedule=llada steps=8", "1"},
		{"dream-tiny", `,"steps":8`, "greedy(entropy) schedule=dream steps=8 top-p=0.95", "1"},
		{"sdar-tiny", "", "dynamic(theta=0.85) schedule=llada steps=4 reuse=blocks", "2"},
	} {
		t.Run(c.pack, func(t *testing.T) {
			m, err := unmask.Load(t.Context(), filepath.Join("..", "testdata", "packs", c.pack),
				unmask.Options{Threads: 2})
			require.NoError(t, err)
			url := one(t, c.pack, m)
			recipe, err := generate.ParseRecipe(c.greedy)
			require.NoError(t, err)
			known := append([]int32{3, 50, 99}, slices.Repeat([]int32{m.Spec().Mask}, 16)...)
			var want []int32
			for step, err := range generate.Run(t.Context(), m.Denoiser,
				generate.Options{Request: generate.Request{Recipe: recipe, Seed: 9, Known: known}}) {
				require.NoError(t, err)
				want = slices.Clone(step.Sequences[0].Tokens)
			}
			for _, fields := range []string{"", `,"seed":1`, `,"seed":2`} {
				got := tokensAt(t, url, `,"temperature":0`+c.steps+fields)
				require.Equal(t, []string{asNumbers(want[3:])}, got, fields)
			}
			drawn := tokensAt(t, url, `,"n":4,"seed":1,"temperature":`+c.temperature+c.steps)
			require.Greater(t, len(slices.Compact(slices.Sorted(slices.Values(drawn)))), 1, "%v", drawn)
		})
	}
}

// A sampler that a request names begins from its own defaults, and the answer says what it leaves
// out of the published run. Naming the temperature too leaves nothing to say.
func TestNamedSamplersAreNoted(t *testing.T) {
	m, err := unmask.Load(t.Context(), filepath.Join("..", "testdata", "packs", "dream-tiny"),
		unmask.Options{Threads: 2})
	require.NoError(t, err)
	require.Contains(t, m.Recipe, "temperature=0.2 top-p=0.95")
	url := one(t, "dream", m)
	const note = `sampler "greedy(entropy)" begins from its own defaults, without `
	for fields, want := range map[string]string{
		``:                                       "",
		`,"sampler":"greedy(entropy)"`:           note + "temperature=0.2 top-p=0.95 of the model's recipe",
		`,"sampler":"greedy(entropy)","top_p":1`: note + "temperature=0.2 of the model's recipe",
		`,"sampler":"entropy","temperature":0.5,"top_p":1`: "",
	} {
		status, header, data := post(t, url+"/v1/completions",
			`{"prompt":[3,50,99],"max_tokens":8,"steps":4,"seed":1`+fields+`}`)
		require.Equal(t, 200, status, "%s", data)
		require.Equal(t, want, header.Get("Unmask-Note"), fields)
		require.Equal(t, want != "", strings.Contains(string(data), `"notes":["sampler `), "%s", data)
	}

	q, err := m.Prepare(t.Context(), unmask.Request{Tokens: []int32{3, 50, 99}, MaxTokens: 8,
		Overrides: unmask.Overrides{"sampler": "greedy(entropy)"}})
	require.NoError(t, err)
	require.Equal(t, "sampler=greedy(entropy) schedule=dream steps=8", q.Recipe.String())
}
