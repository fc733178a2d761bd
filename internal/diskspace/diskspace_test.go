package diskspace

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder that does not exist yet has the room of the one in which it would be.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	free, known := Free(dir)
	if !known {
		t.Skip("this system does not say it")
	}
	require.Positive(t, free)
	later, known := Free(filepath.Join(dir, "a", "b"))
	require.True(t, known)
	require.Positive(t, later)
}
