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
	Rows          [][]rune // a wide rune is followed by 0
	Row           int
	column        int
	Bold          map[rune]bool // runes that were written in bold
	style         string
	Wrapped       bool // a line was wider than the screen
	Scrolled      int
}

// New returns an empty screen.
func New(width, height int) *Screen {
	s := &Screen{Width: width, Height: height, Bold: map[rune]bool{}}
	for range height {
		s.Rows = append(s.Rows, nil)
	}
	return s
}

// Write draws.
func (s *Screen) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			end := strings.IndexFunc(rest, func(r rune) bool { return r >= 'A' })
			s.escape(rest[:end], rest[end])
			text = rest[end+1:]
			continue
		}
		r := []rune(text)[0]
		s.put(r)
		text = text[len(string(r)):]
	}
	return len(p), nil
}

func (s *Screen) escape(number string, kind byte) {
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

func (s *Screen) put(r rune) {
	switch r {
	case '\r':
		s.column = 0
		return
	case '\n':
		s.line()
		return
	}
	if s.column+runewidth.RuneWidth(r) > s.Width {
		s.Wrapped = true
		s.line()
	}
	for len(s.Rows[s.Row]) < s.column {
		s.Rows[s.Row] = append(s.Rows[s.Row], ' ')
	}
	cells := []rune{r, 0}[:runewidth.RuneWidth(r)]
	s.Rows[s.Row] = append(s.Rows[s.Row][:s.column],
		append(cells, s.Rows[s.Row][min(s.column+len(cells), len(s.Rows[s.Row])):]...)...)
	s.column += len(cells)
	s.Bold[r] = s.Bold[r] || s.style == "1;32"
}

// line goes to the start of the next line, as terminal drivers do for a newline.
func (s *Screen) line() {
	s.column = 0
	if s.Row++; s.Row == s.Height {
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
