package terminal

import (
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// GrowingText writes a text to a terminal as it settles, from the left. Full lines are written
// once. The last line is drawn again at each step, with what is not settled yet behind it, dim.
type GrowingText struct {
	out     io.Writer
	columns int

	// written counts the bytes of the wrapped text that will not be drawn again: its full lines.
	written int

	startedAt time.Time
}

// NewGrowingText returns an empty text on a terminal of so many columns.
func NewGrowingText(out io.Writer, columns int) *GrowingText {
	return &GrowingText{out: out, columns: columns, startedAt: time.Now()}
}

// Draw shows a text after a step: settled is what has settled of it, which begins with what had
// settled before, and unsettled is what follows for now.
func (g *GrowingText) Draw(settled, unsettled string, step, steps int) {
	wrapped := g.wrap(settled)
	lastLine := strings.LastIndex(wrapped, "\n") + 1
	var b strings.Builder
	b.WriteString("\r" + clearLine + wrapped[min(g.written, len(wrapped)):])
	g.written = max(g.written, lastLine)

	progress := progressLine("  steps", int64(step), int64(steps), time.Since(g.startedAt))
	room := g.columns - 1 - runewidth.StringWidth(wrapped[lastLine:])
	if room < len(progress) {
		progress = ""
	}
	unsettled = runewidth.Truncate(inOneLine(unsettled), max(room-len(progress), 0), "")
	if unsettled+progress != "" {
		b.WriteString(dim + unsettled + progress + reset)
	}
	b.WriteByte('\r') // so that a ^C which the terminal adds is drawn over
	io.WriteString(g.out, b.String())
}

// Close shows the whole text, which begins with what has settled, and ends its line.
func (g *GrowingText) Close(text string) error {
	wrapped := g.wrap(text)
	_, err := io.WriteString(g.out, "\r"+clearLine+wrapped[min(g.written, len(wrapped)):]+"\n")
	return err
}

// Abandon removes the last line, of a text that will not be whole.
func (g *GrowingText) Abandon() { io.WriteString(g.out, "\r"+clearLine) }

// wrap returns a text without control characters, as WrapText divides it. Words that are longer
// than a line are divided too: the cursor does not return to the first line of one that the
// terminal divides.
func (g *GrowingText) wrap(text string) string {
	var b strings.Builder
	column := 0
	text = strings.ReplaceAll(EscapeControls(text), "\t", "    ")
	for _, r := range WrapText(text, g.columns) {
		width := runewidth.RuneWidth(r)
		if column+width > g.columns {
			b.WriteByte('\n')
			column = 0
		}
		b.WriteRune(r)
		column += width
		if r == '\n' {
			column = 0
		}
	}
	return b.String()
}

// inOneLine returns a text with a space for each control character, ends of lines among them.
func inOneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}
