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
