package terminal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/internal/screen"
)

// However a text settles, the screen has it in the end as WrapText divides it, its full lines stay
// as they are, and no line is longer than the terminal is wide.
func TestGrowingTexts(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "Lily", "friends.", "\n", " ", "\x1b[2J",
		"🙂", "é", "unbelievable", "木漏れ日が差す", strings.Repeat("long", 20)})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(word).Draw(t, "words"), " ")
		columns := rapid.IntRange(14, 60).Draw(t, "columns")
		s := screen.New(columns, 200)
		g := NewGrowingText(s, columns)
		runes := []rune(text)
		settled := 0
		for step := range 6 {
			settled = rapid.IntRange(settled, len(runes)).Draw(t, "settled")
			g.Draw(string(runes[:settled]), string(runes[settled:])+"\x1b▯", step, 6)
			shown := written(g.wrap(string(runes[:settled])))
			require.True(t, strings.HasPrefix(written(s.Text()), shown), "%q", shown)
			require.False(t, s.Wrapped)
		}
		require.NoError(t, g.Close(text))
		require.Equal(t, written(g.wrap(text)), written(s.Text()))
		isPlain := !strings.Contains(text, "\x1b")
		if isPlain && !strings.Contains(text, "longlong") && !strings.Contains(text, "木") {
			require.Equal(t, written(WrapText(text, columns)), written(s.Text()))
		}
	})
}

// written returns a text without blanks at the ends of its lines, which a screen does not show.
func written(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
