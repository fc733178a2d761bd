package server_test

import (
	"path/filepath"
	"slices"
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
