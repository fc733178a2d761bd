package unmask_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/plain"
	"unmask/demo"
)

// Any text gives tokens that contain it, with the right number of masks for each hole, or a
// one-line error.
func FuzzInfill(f *testing.F) {
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Backend: plain.New()})
	require.NoError(f, err)
	f.Add("To be, [20] that is the question")
	f.Add("[1][2]\n[3]")
	f.Add("a [0] b")
	f.Add("[99999999999999999999] [-1] [1")
	f.Add("[[2]] \xff")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "[") > 16 {
			t.Skip("each hole may be as long as the model")
		}
		tokens, err := m.Text.Infill(text, 0)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotZero(t, masked(tokens, m))
		shown := strings.ReplaceAll(m.Text.Decode(tokens), unmask.Hole, "")
		require.Equal(t, strings.ReplaceAll(regexp.MustCompile(`\[([0-9]+)\]`).ReplaceAllString(text, ""),
			unmask.Hole, ""), shown)
	})
}
