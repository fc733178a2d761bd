package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each operator of a package's own files becomes another once, and nothing else changes.
func TestFindMutants(t *testing.T) {
	const text = "package p\n\nfunc f(a, b int) bool {\n\ta += b\n\ta++\n\treturn a < b && a != 0\n}\n"
	folder := t.TempDir()
	for name, data := range map[string]string{"p.go": text, "p_test.go": text} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(data), 0o666))
	}
	list, err := findMutants(folder)
	require.NoError(t, err)
	changes := map[string]string{
		"p.go:4: += becomes -=": strings.Replace(text, "+=", "-=", 1),
		"p.go:5: ++ becomes --": strings.Replace(text, "++", "--", 1),
		"p.go:6: < becomes <=":  strings.Replace(text, "<", "<=", 1),
		"p.go:6: && becomes ||": strings.Replace(text, "&&", "||", 1),
		"p.go:6: != becomes ==": strings.Replace(text, "!=", "==", 1),
	}
	require.Len(t, list, len(changes))
	for i := range list {
		changed, err := list[i].apply()
		require.NoError(t, err)
		require.Equal(t, changes[list[i].String()], string(changed))
	}
}
