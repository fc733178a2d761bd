package experiments

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shards stay as they are: no journal is gathered into one.
func TestGatherIntoShard(t *testing.T) {
	dir := t.TempDir()
	var names []string
	var before [][]byte
	half := len(chainPoints) / 2
	for i, first := range []int{0, half} {
		end := []int{half, len(chainPoints)}[i]
		name := filepath.Join(dir, []string{"a.jsonl", "b.jsonl"}[i])
		j, err := OpenJournal(name, Settings{"model": "chain"}, NewPlanRange(chainPoints, first, end))
		require.NoError(t, err)
		require.NoError(t, Sweep(t.Context(), j, chain(), chainPoints[first:end],
			func(Progress) bool { return true }))
		require.NoError(t, j.Close())
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		names, before = append(names, name), append(before, data)
	}
	for _, out := range []string{names[0], names[1],
		dir + "/../" + filepath.Base(dir) + "/a.jsonl"} {
		_, err := Gather(out, names)
		require.ErrorContains(t, err, "want another place", out)
	}
	for i, name := range names {
		after, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, before[i], after)
	}
	n, err := Gather(filepath.Join(dir, "all.jsonl"), names)
	require.NoError(t, err)
	require.Equal(t, len(chainPoints), n)
}
