package paint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/paint"
)

func TestParseMargins(t *testing.T) {
	m, err := paint.ParseMargins("left=64, top=32,bottom=1")
	require.NoError(t, err)
	require.Equal(t, paint.Margins{Left: 64, Top: 32, Bottom: 1}, m)
	again, err := paint.ParseMargins(m.String())
	require.NoError(t, err)
	require.Equal(t, m, again)
	for _, text := range []string{"", "left", "left=", "left=x", "left=-1", "left=0", "up=3",
		"left=1,left=2", "left=99999999999", "left=1,"} {
		_, err := paint.ParseMargins(text)
		require.ErrorContains(t, err, "margins are ", text)
	}
}

// FuzzMargins reads any text without panicking, and writes back what it reads.
func FuzzMargins(f *testing.F) {
	f.Add("left=64,top=32")
	f.Add("right=1,,bottom=\xff")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := paint.ParseMargins(text)
		if err != nil {
			return
		}
		again, err := paint.ParseMargins(m.String())
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}
