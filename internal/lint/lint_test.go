package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules read the module from its root.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// modulePath returns the module's path, which its owner may change.
func modulePath(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(data), "\n")
	path, ok := strings.CutPrefix(line, "module ")
	require.True(t, ok, "go.mod begins with %q", line)
	return strings.TrimSpace(path)
}

// files returns the module's files with one of the extensions, without hidden folders.
func files(t *testing.T, extensions ...string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case !d.IsDir() && slices.Contains(extensions, filepath.Ext(path)):
			names = append(names, filepath.ToSlash(path))
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}
