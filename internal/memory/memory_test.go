package memory

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeminfo(t *testing.T) {
	free, ok := findNumber([]byte("MemTotal:       24684092 kB\nMemAvailable:   1000 kB\n"),
		"MemAvailable:")
	require.True(t, ok)
	require.EqualValues(t, 1000, free)
	for _, text := range []string{"", "MemAvailable:", "MemAvailable: x kB",
		"MemAvailable: 99999999999999999999 kB"} {
		_, ok := findNumber([]byte(text), "MemAvailable:")
		require.False(t, ok, text)
	}
}

func TestGroup(t *testing.T) {
	dir := t.TempDir()
	limit, used := filepath.Join(dir, "memory.max"), filepath.Join(dir, "memory.stat")
	_, ok := groupMemory(dir)
	require.False(t, ok)
	require.NoError(t, os.WriteFile(used, []byte("anon 40\nfile 900\n"), 0o600))
	require.NoError(t, os.WriteFile(limit, []byte("max\n"), 0o600))
	_, ok = groupMemory(dir)
	require.False(t, ok)
	require.NoError(t, os.WriteFile(limit, []byte("100\n"), 0o600))
	left, ok := groupMemory(dir)
	require.True(t, ok)
	require.EqualValues(t, 60, left)
}

func TestAvailable(t *testing.T) {
	free, ok := Available()
	require.Equal(t, runtime.GOOS == "linux", ok)
	require.Equal(t, ok, free > 0)
}
