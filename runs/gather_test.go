package runs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/runs"
)

// shards makes a run of four outputs in two folders, and returns them.
func shards(t *testing.T, dir string) (names []string) {
	for i := range 2 {
		shard, err := runs.ParseShard(fmt.Sprintf("%d/2", i), nil)
		require.NoError(t, err)
		name := filepath.Join(dir, fmt.Sprintf("sh%d", i))
		f, err := runs.OpenFolder(name, runs.Settings{"seed": "1"}, shard, 4)
		require.NoError(t, err)
		for k := range 2 {
			require.NoError(t, f.Put(2*i+k, 1, fmt.Appendf(nil, "picture %d", 2*i+k)))
		}
		require.NoError(t, f.Close())
		names = append(names, name)
	}
	return names
}

// A link is no output: verify would refuse the folder that has it.
func TestGatherRefusesLinks(t *testing.T) {
	dir := t.TempDir()
	names := shards(t, dir)
	picture := filepath.Join(names[1], "000002.png")
	elsewhere := filepath.Join(dir, "elsewhere.png")
	require.NoError(t, os.Rename(picture, elsewhere))
	require.NoError(t, os.Symlink(elsewhere, picture))
	out := filepath.Join(dir, "out")
	_, err := runs.Gather(out, names)
	require.ErrorContains(t, err, "000002.png is a link, want a file")
	require.NoError(t, os.Remove(picture))
	require.NoError(t, os.Rename(elsewhere, picture))
	n, err := runs.Gather(out, names)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	r, err := runs.Verify(out)
	require.NoError(t, err)
	require.Empty(t, r.Faults)
}

// Shards stay as they are: nothing is gathered into one.
func TestGatherIntoShard(t *testing.T) {
	dir := t.TempDir()
	names := shards(t, dir)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(names[0], link))
	for _, out := range []string{filepath.Join(names[0], "x"), names[1],
		filepath.Join(names[1], "a", "b"), filepath.Join(link, "x"), names[0] + "/../sh0/x"} {
		_, err := runs.Gather(out, names)
		require.ErrorContains(t, err, "want another place", out)
	}
	for _, name := range names {
		r, err := runs.Verify(name)
		require.NoError(t, err)
		require.Empty(t, r.Faults)
		list, err := os.ReadDir(name)
		require.NoError(t, err)
		require.Len(t, list, 3) // two pictures and the manifest
	}
}
