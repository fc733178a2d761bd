package runs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/exact"
	"unmask/generate"
	"unmask/runs"
	"unmask/samplers"
)

// A run interrupted anywhere, with lines finished in any order, continues to the same bytes.
func TestLinesInAnyOrder(t *testing.T) {
	const n = 12
	line := func(i int) []byte { return fmt.Appendf(nil, "line %d", i) }
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "runs")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		name := filepath.Join(dir, "out.jsonl")
		s := runs.Settings{"seed": "1"}
		for done := 0; done < n; {
			l, err := runs.OpenLines(name, s, runs.Shard{}, 0)
			require.NoError(t, err)
			o := l.Rest(n)
			require.Equal(t, done, o.First)
			require.Equal(t, n-done, o.N)
			order := make([]int, o.N)
			for i := range order {
				order[i] = o.First + i
			}
			order = rapid.Permutation(order).Draw(t, "order")
			for _, i := range order[:rapid.IntRange(1, len(order)).Draw(t, "until")] {
				require.NoError(t, l.Put(i, 1, line(i)))
			}
			done = l.Done()
			require.NoError(t, l.Close())
		}
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		want := ""
		for i := range n {
			want += string(line(i)) + "\n"
		}
		require.Equal(t, want, string(data))
		r, err := runs.Verify(name)
		require.NoError(t, err)
		require.Empty(t, r.Faults)
		require.Equal(t, n, r.Outputs)
	})
}

func TestFolderRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	f, err := runs.OpenFolder(dir, runs.Settings{}, runs.Shard{}, 0)
	require.NoError(t, err)
	for i := range 4 {
		require.NoError(t, f.Put(i, 0, []byte("x")))
	}
	require.NoError(t, f.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, f.Name(2))))
	f, err = runs.OpenFolder(dir, runs.Settings{}, runs.Shard{}, 0)
	require.NoError(t, err)
	defer f.Close()
	var got [][2]int
	for _, o := range f.Rest(6, []int{0, 1, 2}) {
		got = append(got, [2]int{o.First, o.N})
	}
	require.Equal(t, [][2]int{{0, 3}, {4, 2}}, got, "0 and 1 again, 2 that is missing, 4 and 5")
}

// Settings compare runs by meaning, not by spelling.
func TestSettings(t *testing.T) {
	d := exact.NewDenoiser(exact.Product(8, 3, 1, 1))
	settings := func(o generate.Options) runs.Settings {
		o, err := o.Check(d)
		require.NoError(t, err)
		return runs.NewSettings("m", "f32", o.Request)
	}
	base := settings(generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 4}}})
	require.Equal(t, base,
		settings(generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 4}}, N: 100,
			Batch: 7}))
	for name, o := range map[string]generate.Options{
		"seed":  {Request: generate.Request{Recipe: generate.Recipe{Steps: 4}, Seed: 1}},
		"steps": {Request: generate.Request{Recipe: generate.Recipe{Steps: 5}}},
		"known": {Request: generate.Request{Recipe: generate.Recipe{Steps: 4}, Known: []int32{1, 3, 3,
			3, 3, 3, 3, 3}}},
	} {
		require.NotEqual(t, base[name], settings(o)[name], name)
	}
	// An old run with semi-ar goes on with its own blocks alone.
	semi := func(even int) runs.Settings {
		return settings(generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 4,
			Sampler: samplers.SemiAR{Block: 4, Even: even}}}})
	}
	require.Equal(t, "semi-ar(block=4)", semi(1)["sampler"])
	require.Equal(t, semi(0)["sampler"], semi(1)["sampler"])
	require.NotEqual(t, semi(0), semi(1))
}
