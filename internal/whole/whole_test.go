package whole

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error { io.WriteString(w, s); return err }
	}
	require.NoError(t, WriteFile(name, text("one", nil)))
	require.NoError(t, WriteFile(name, text("two", nil)))
	require.ErrorContains(t, WriteFile(name, text("three", errors.New("broken"))), "broken")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "two", string(data))

	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d", "x"), nil, 0o644))
	require.Error(t, WriteFile(filepath.Join(dir, "d"), text("a directory is not replaced", nil)))
	require.ErrorIs(t, WriteFile(filepath.Join(dir, "none", "f"), text("", nil)), os.ErrNotExist)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)

	t.Chdir(dir)
	require.NoError(t, WriteFile("g", text("relative", nil)))
}

// Until it is committed, and after it is discarded, a file is unchanged, and nothing else is left.
func TestFileAppearsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(name, []byte("before"), 0o600))
	f, err := Create(name)
	require.NoError(t, err)
	io.WriteString(f, "half")
	require.Equal(t, "before", read(t, name))
	f.Discard()
	f.Discard()
	require.Equal(t, "before", read(t, name))
	require.ErrorIs(t, f.Commit(), os.ErrClosed)
	require.Equal(t, []string{"f"}, names(t, dir))

	f, err = Create(name)
	require.NoError(t, err)
	io.WriteString(f, "new")
	require.NoError(t, f.CommitAs(filepath.Join(dir, "g")))
	require.Equal(t, "before", read(t, name))
	require.Equal(t, "new", read(t, filepath.Join(dir, "g")))
	require.Equal(t, []string{"f", "g"}, names(t, dir))

	require.ErrorContains(t, Check(dir), "is a directory, want a file")
}

// Leftovers of killed processes are removed by the next file of the name; files that a running
// process is writing stay, and so do those of other names.
func TestLeftoversGoAway(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f.txt")
	for _, left := range []string{".f.txt.ABCDEFGH.tmp", ".other.ABCDEFGH.tmp", ".f.txt.mine.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, left), nil, 0o644))
	}
	alive, err := Create(name)
	require.NoError(t, err)
	io.WriteString(alive, "first")
	require.NoError(t, WriteFile(name,
		func(w io.Writer) error { _, err := io.WriteString(w, "second"); return err }))
	require.Equal(t, "second", read(t, name))
	require.NoError(t, alive.Commit())
	require.Equal(t, "first", read(t, name))
	require.Equal(t, []string{".f.txt.mine.tmp", ".other.ABCDEFGH.tmp", "f.txt"}, names(t, dir))
}

func read(t *testing.T, name string) string {
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

func names(t *testing.T, dir string) (list []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
