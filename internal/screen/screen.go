// Package screen emulates a terminal's screen for tests.
package screen

import (
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Screen is a simple terminal: it wraps, scrolls and supports the control sequences that commands
// write.
type Screen struct {
	Width, Height int

	// Rows are the lines from the top; a wide rune is followed by 0.
	Rows [][]rune

	// Row and column are where the next rune goes.
	Row    int
	column int

	// Bold has the runes that were written in bold.
	Bold map[rune]bool

	// style has the numbers of the latest sequence that set one, such as boldGreen.
	style string

	// Wrapped says that a line was wider than the screen, Scrolled how many lines left it at the top.
	Wrapped  bool
	Scrolled int
}

// boldGreen is the style of what a step has opened.
const boldGreen = "1;32"

// New returns an empty screen.
func New(width, height int) *Screen {
	s := &Screen{Width: width, Height: height, Bold: map[rune]bool{}}
	for range height {
		s.Rows = append(s.Rows, nil)
	}
	return s
}

// Write draws p. It implements io.Writer; each call must end with a whole sequence.
func (s *Screen) Write(p []byte) (int, error) {
	text := string(p)
	for text != "" {
		if sequence, ok := strings.CutPrefix(text, "\x1b["); ok {
			end := strings.IndexFunc(sequence, func(r rune) bool { return r >= 'A' })
			s.runSequence(sequence[:end], sequence[end])
			text = sequence[end+1:]
			continue
		}
		r := []rune(text)[0]
		s.drawRune(r)
		text = text[len(string(r)):]
	}
	return len(p), nil
}

// runSequence runs a control sequence, given its number and its last letter.
func (s *Screen) runSequence(number string, kind byte) {
	switch kind {
	case 'A':
		up := 0
		fmt.Sscan(number, &up)
		s.Row = max(0, s.Row-up)
	case 'K':
		s.Rows[s.Row] = nil
	case 'J':
		s.Rows[s.Row] = s.Rows[s.Row][:min(s.column, len(s.Rows[s.Row]))]
		clear(s.Rows[s.Row+1:])
	case 'm':
		s.style = number
	default:
		panic("unknown sequence " + number + string(kind))
	}
}

// drawRune draws a rune, or runs a control character.
func (s *Screen) drawRune(r rune) {
	switch r {
	case '\r':
		s.column = 0
		return
	case '\n':
		s.startLine()
		return
	}
	if s.column+runewidth.RuneWidth(r) > s.Width {
		s.Wrapped = true
		s.startLine()
	}
	for len(s.Rows[s.Row]) < s.column {
		s.Rows[s.Row] = append(s.Rows[s.Row], ' ')
	}
	row := s.Rows[s.Row]
	cells := []rune{r, 0}[:runewidth.RuneWidth(r)] // a wide rune has an empty cell behind it
	kept := row[min(s.column+len(cells), len(row)):]
	s.Rows[s.Row] = append(row[:s.column], append(cells, kept...)...)
	s.column += len(cells)
	s.Bold[r] = s.Bold[r] || s.style == boldGreen
}

// startLine goes to the start of the next line, as terminal drivers do for a newline. At the
// bottom, all lines move up.
func (s *Screen) startLine() {
	s.column = 0
	s.Row++
	if s.Row == s.Height {
		s.Row--
		s.Scrolled++
		s.Rows = append(s.Rows[1:], nil)
	}
}

// Text returns what the screen shows, without empty lines and blanks at the end.
func (s *Screen) Text() string {
	var lines []string
	for _, row := range s.Rows {
		lines = append(lines, strings.TrimRight(strings.ReplaceAll(string(row), "\x00", ""), " "))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
