package runs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/runs"
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
			o := l.Missing(n)
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
	for _, o := range f.Missing(6, []int{0, 1, 2}) {
		got = append(got, [2]int{o.First, o.N})
	}
	require.Equal(t, [][2]int{{0, 3}, {4, 2}}, got, "0 and 1 again, 2 that is missing, 4 and 5")
}
