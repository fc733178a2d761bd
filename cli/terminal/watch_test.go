package terminal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask"
	"unmask/generate"
	"unmask/internal/screen"
	"unmask/samplers"
)

// on returns a watcher that draws on a screen.
func on(s *screen.Screen) *Watcher {
	return &Watcher{out: s, openedStyle: green, size: func() (int, int) { return s.Width, s.Height }}
}

// frame returns a picture of pieces; those with an index in opened are new.
func frame(step int, pieces []string, opened ...int) textDrawing {
	fresh := map[int]bool{}
	for _, p := range opened {
		fresh[p] = true
	}
	return textDrawing{sample: 7, step: step, steps: 9, texts: pieces,
		masked: func(p int) bool { return pieces[p] == "_" },
		opened: func(p int) bool { return fresh[p] }}
}

func TestFramesFollowOneAnother(t *testing.T) {
	s := screen.New(24, 8)
	fmt.Fprint(s, "$ unmask text --watch\n")
	w := on(s)
	w.drawText(frame(1, []string{"_", "_", "_"}))
	require.Equal(t, "$ unmask text --watch\nsample 7, step 1 of 9\n___", s.Text())
	w.drawText(frame(2, []string{"a long first piece,", " and\n", "_"}, 0, 1))
	require.Equal(t, "$ unmask text --watch\nsample 7, step 2 of 9\na long first piece, and\n_",
		s.Text())
	require.True(t, s.Bold['p'])
	require.False(t, s.Bold['_'])
	w.drawText(frame(3, []string{"short", "", "世界"}, 2)) // the longer text before it is gone
	require.Equal(t, "$ unmask text --watch\nsample 7, step 3 of 9\nshort世界", s.Text())
	w.Clear()
	fmt.Fprint(s, "short世界\n")
	require.Equal(t, "$ unmask text --watch\nshort世界", s.Text())
	require.False(t, s.Wrapped)
}

// In a terminal whose width has changed the next frame begins below, and overwrites nothing above.
func TestFramesAfterAnotherWidth(t *testing.T) {
	s := screen.New(24, 12)
	fmt.Fprint(s, "> Hello!\n")
	w := on(s)
	w.drawText(frame(1, []string{strings.Repeat("_", 40)}))
	s.Width = 40
	w.drawText(frame(2, []string{strings.Repeat("a", 40)}, 0))
	w.drawText(frame(3, []string{strings.Repeat("b", 40)}, 0))
	before := "> Hello!\nsample 7, step 1 of 9\n" + strings.Repeat("_", 24) + "\n" +
		strings.Repeat("_", 16)
	require.Equal(t, before+"\nsample 7, step 3 of 9\n"+strings.Repeat("b", 40), s.Text())
	s.Width = 24
	w.Clear()
	require.Contains(t, s.Text(), before)
}

// What a terminal prints for a pressed key neither shifts the next frame nor stays.
func TestFramesAfterAKey(t *testing.T) {
	s := screen.New(24, 8)
	w := on(s)
	w.drawText(frame(1, []string{"_", "_", "_"}))
	fmt.Fprint(s, "^C")
	w.drawText(frame(2, []string{"a", "_", "_"}, 0))
	require.Equal(t, "sample 7, step 2 of 9\na__", s.Text())
	fmt.Fprint(s, "^C")
	w.Clear()
	fmt.Fprint(s, "a__\n")
	require.Equal(t, "a__", s.Text())
}

// A wide rune that does not fit goes to the next line; control characters are not printed.
func TestFramesBreakLinesThemselves(t *testing.T) {
	s := screen.New(24, 9)
	on(s).drawText(frame(1, []string{strings.Repeat("x", 23), "世", "\x1b[2J\a\t",
		strings.Repeat("y", 24)}))
	require.Equal(t, "sample 7, step 1 of 9\n"+strings.Repeat("x", 23)+"\n世[2J"+strings.Repeat("y",
		19)+"\nyyyyy", s.Text())
	require.False(t, s.Wrapped)
}

// On any screen, no frame leaves parts of the one before, none scrolls once there is room for one,
// and the result replaces the drawing.
func TestFramesLeaveNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := screen.New(rapid.IntRange(23, 60).Draw(t, "width"), rapid.IntRange(3, 12).Draw(t, "height"))
		w := on(s)
		piece := rapid.SampledFrom([]string{"_", "a", " word", "世界", "\n", "line\nline", "", "\t", "€",
			strings.Repeat("long ", 9)})
		for n := range rapid.IntRange(1, 6).Draw(t, "frames") {
			before := s.Scrolled
			pieces := rapid.SliceOfN(piece, 0, 40).Draw(t, "pieces")
			w.drawText(frame(n, pieces))
			require.LessOrEqual(t, s.Scrolled-before, s.Height-1)
			fresh := screen.New(s.Width, s.Height)
			on(fresh).drawText(frame(n, pieces))
			require.Equal(t, strings.TrimLeft(fresh.Text(), "\n"), strings.TrimLeft(s.Text(), "\n"))
			require.Equal(t, w.lines, strings.Count(headless(s), "\n")+1)
		}
		w.Clear()
		require.Empty(t, s.Text())
		require.False(t, s.Wrapped)
	})
}

// headless returns all rows above the cursor from the headline on.
func headless(s *screen.Screen) string {
	var lines []string
	for _, row := range s.Rows[:s.Row] {
		lines = append(lines, string(row))
	}
	for len(lines) > 0 && !strings.HasPrefix(lines[0], "sample") {
		lines = lines[1:]
	}
	return strings.Join(lines, "\n")
}

// Every sampler can be watched, also those that mask positions again.
func TestWatchEverySampler(t *testing.T) {
	m, err := unmask.Load(t.Context(), "oracle:hmm:length=24,tokens=3", unmask.Options{})
	require.NoError(t, err)
	for _, info := range samplers.List() {
		sampler, err := samplers.Parse(info.Name)
		require.NoError(t, err)
		s := screen.New(40, 9)
		w := on(s)
		w.model = m
		for step, err := range generate.Run(t.Context(), m,
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: sampler,
				Steps: 8}}}) {
			require.NoError(t, err, info.Name)
			w.Draw(step)
			tokens := step.Sequences[0].Tokens
			require.Equal(t, fmt.Sprintf("sample 0, step %d of %d\n%s", step.N, step.Steps,
				strings.Join(w.positionTexts(tokens), "")), s.Text(), info.Name)
		}
		w.Clear()
		require.Empty(t, s.Text())
	}
}
