package terminal

import (
	"image"
	"image/color"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/generate"
	"unmask/internal/screen"
)

func TestColoursOfATerminal(t *testing.T) {
	for _, x := range []struct {
		term, colorterm, none string
		want                  colours
	}{{"xterm", "", "", noColours}, {"xterm-256color", "", "", colours256},
		{"xterm", "truecolor", "", colours24bit}, {"xterm", "24bit", "", colours24bit},
		{"xterm-direct", "", "", colours24bit}, {"", "", "", noColours},
		{"xterm-256color", "truecolor", "1", noColours}} {
		got := terminalColours(func(name string) string {
			return map[string]string{"TERM": x.term, "COLORTERM": x.colorterm, "NO_COLOR": x.none}[name]
		})
		require.Equal(t, x.want, got, "%+v", x)
	}
}

func TestHalfBlocks(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 2, 4))
	for y := range 4 {
		for x := range 2 {
			img.SetNRGBA(x, y, color.NRGBA{R: uint8(60 * y), G: 255, B: uint8(x), A: 255})
		}
	}
	var b strings.Builder
	w := &Watcher{out: &b, colours: colours24bit, size: func() (int, int) { return 40, 20 }}
	w.paintImage(3, 1, 2, img)
	require.Contains(t, b.String(), "sample 3, step 1 of 2")
	require.Contains(t, b.String(), "\x1b[38;2;0;255;0;48;2;60;255;0m▀\x1b[38;2;0;255;1;48;2;60;255;1m▀")
	require.Equal(t, 4, strings.Count(b.String(), "▀"))
	require.Equal(t, 3, w.lines)
	b.Reset()
	w.colours = colours256
	w.paintImage(3, 2, 2, img)
	require.Contains(t, b.String(), "\x1b[38;5;46;48;5;82m▀")
}

// On a terminal of any size a picture fits, and the next one replaces it.
func TestImagesOnAScreen(t *testing.T) {
	m, err := unmask.LoadFS(demo.Image(), "demo", unmask.Options{Threads: 1})
	require.NoError(t, err)
	for _, size := range [][2]int{{24, 5}, {40, 12}, {200, 60}} {
		s := screen.New(size[0], size[1])
		w := on(s)
		w.model, w.colours = m, colours24bit
		for step, err := range generate.Run(t.Context(), m.Denoiser,
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: 3}}}) {
			require.NoError(t, err)
			w.drawingTime = 0
			w.Draw(step)
			rows := strings.Split(s.Text(), "\n")
			require.Len(t, rows, w.lines, "%v", size)
			require.True(t, strings.HasPrefix(rows[0], "sample 0, step"))
			require.Contains(t, rows[1], "▀▀")
			require.False(t, s.Wrapped)
		}
		w.Clear()
		require.Empty(t, s.Text())
	}
}

// Without colours what has just opened is bold alone.
func TestFreshWithoutColour(t *testing.T) {
	with := func(value string) string {
		return openedStyle(func(name string) string { return map[string]string{"NO_COLOR": value}[name] })
	}
	require.Equal(t, "\x1b[1;32m", with(""))
	require.Equal(t, "\x1b[1m", with("1"))
}
