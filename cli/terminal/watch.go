package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"unmask"
	"unmask/generate"
	"unmask/prompt"
)

// Watcher redraws a batch's first sequence on the terminal and highlights what has just opened. One
// goroutine at a time may use one.
type Watcher struct {
	model *unmask.Model

	// answer says which positions of a text are shown; nil shows all.
	answer *unmask.Answer

	out  io.Writer
	size func() (width, height int)

	// lines counts those of the last drawing, and width is that of the terminal at that time.
	lines int
	width int

	// openedStyle is how what has just opened looks.
	openedStyle string

	// colours, drawnAt and drawingTime are for pictures: when the last one was drawn, and how long
	// that took.
	colours     colours
	drawnAt     time.Time
	drawingTime time.Duration
}

// NewWatcher returns a watcher that draws on a terminal; m may be nil if pictures come from
// elsewhere.
func NewWatcher(m *unmask.Model, terminal *os.File) *Watcher {
	return &Watcher{
		model:       m,
		out:         terminal,
		colours:     terminalColours(os.Getenv),
		openedStyle: openedStyle(os.Getenv),
		size: func() (int, int) {
			width, height, err := term.GetSize(int(terminal.Fd()))
			if err != nil || width < 10 || height < 3 {
				return 80, 24
			}
			return width, height
		},
	}
}

// SetAnswer makes the watcher draw the part of a sequence that an answer shows.
func (w *Watcher) SetAnswer(a *unmask.Answer) { w.answer = a }

// openedStyle returns the style of what has just opened: bold and, unless NO_COLOR is set, green.
func openedStyle(env func(string) string) string {
	if env("NO_COLOR") != "" {
		return bold
	}
	return green
}

// textDrawing is a sequence after a step.
type textDrawing struct {
	// sample is the number of the sequence in its run.
	sample int

	step  int
	steps int

	// texts are those of the positions that are shown; masked and opened take an index in them.
	texts  []string
	masked func(position int) bool
	opened func(position int) bool
}

// Control sequences of terminals. clearLine clears one line: terminals that clear all at once keep
// a copy of it to scroll back to.
const (
	bold       = "\x1b[1m"
	green      = "\x1b[1;32m"
	dim        = "\x1b[2m"
	reset      = "\x1b[0m"
	clearLine  = "\x1b[2K"
	clearBelow = "\x1b[J"
)

// Draw shows the first sequence after a step.
func (w *Watcher) Draw(step *generate.Step) {
	if w.drawImage(step) {
		return
	}
	s := step.Sequences[0]
	opened := map[int]bool{}
	for _, o := range s.Opened {
		opened[o.Position] = true
	}
	mask := w.model.Spec().Mask
	first := 0 // position that is shown first
	if w.answer != nil {
		first = w.answer.Show
	}
	w.drawText(textDrawing{
		sample: s.Index,
		step:   step.N,
		steps:  step.Steps,
		texts:  w.positionTexts(s.Tokens),
		masked: func(p int) bool { return s.Tokens[first+p] == mask },
		opened: func(p int) bool { return opened[first+p] },
	})
}

// openCell stands for an open position of a picture.
const openCell = "█"

// positionTexts returns the text of each position that is shown. For a model of pictures whose
// codes cannot be decoded yet, these are the cells of its grid.
func (w *Watcher) positionTexts(tokens []int32) []string {
	if w.answer != nil {
		return w.answer.Render(tokens).Pieces()
	}
	spec := w.model.Spec()
	width := spec.Shape[len(spec.Shape)-1]
	texts := make([]string, len(tokens))
	for i, t := range tokens {
		texts[i] = openCell
		if t == spec.Mask {
			texts[i] = prompt.Hole
		}
		if (i+1)%width == 0 && i+1 < len(tokens) {
			texts[i] += "\n"
		}
	}
	return texts
}

// drawText draws a sequence over the last drawing, cut off where the terminal ends: what scrolls
// out of it could not be drawn over.
func (w *Watcher) drawText(d textDrawing) {
	width, height := w.size()
	var b strings.Builder
	w.moveUp(&b)
	fmt.Fprintf(&b, "%s%ssample %d, step %d of %d%s\n%s", clearLine, dim, d.sample, d.step, d.steps,
		reset, clearLine)

	column := 0
	lines := 2 // the headline, and the first line of the text
	for i, text := range d.texts {
		style := ""
		switch {
		case d.masked(i):
			style = dim
		case d.opened(i):
			style = w.openedStyle
		}
		for _, r := range text {
			n := runewidth.RuneWidth(r)
			if r == '\n' || column+n > width {
				lines++
				if lines >= height {
					break
				}
				b.WriteString("\n" + clearLine)
				column = 0
			}
			if !unicode.IsControl(r) {
				writeStyled(&b, style, r)
				column += n
			}
		}
		if lines >= height {
			break
		}
	}
	w.lines = min(lines, height-1)
	b.WriteString("\n" + clearBelow)
	io.WriteString(w.out, b.String())
}

// writeStyled writes a character in a style, "" for none.
func writeStyled(b *strings.Builder, style string, r rune) {
	b.WriteString(style)
	b.WriteRune(r)
	if style != "" {
		b.WriteString(reset)
	}
}

// Clear removes the drawing, so that the result follows the command line.
func (w *Watcher) Clear() {
	if w.lines == 0 {
		return
	}
	var b strings.Builder
	w.moveUp(&b)
	b.WriteString(strings.Repeat(clearLine+"\n", w.lines) + clearLine)
	w.moveUp(&b)
	io.WriteString(w.out, b.String())
	w.lines = 0
}

// moveUp moves to the start of the last drawing. The terminal may have printed ^C after it, so the
// cursor returns to the first column. If the terminal's width has changed the drawing stays where
// it is, because terminals differ in how they break its lines again.
func (w *Watcher) moveUp(b *strings.Builder) {
	width, _ := w.size()
	if width != w.width {
		w.width = width
		w.lines = 0
	}
	if w.lines > 0 {
		fmt.Fprintf(b, "\r\x1b[%dA", w.lines)
	}
}
