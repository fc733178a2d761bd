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
	model  *unmask.Model
	answer *unmask.Answer // of texts
	out    io.Writer
	size   func() (width, height int)
	lines  int // lines of the last drawing
	width  int // of the terminal, when it was drawn

	openedStyle string // how what has just opened looks

	// Of pictures.
	colours     colours
	drawnAt     time.Time     // of the last drawing
	drawingTime time.Duration // to draw it
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

// SetAnswer makes the watcher draw what an answer shows of a sequence.
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
	sample int
	step   int
	steps  int
	texts  []string // text of each position that is shown
	masked func(position int) bool
	opened func(position int) bool
}

const (
	bold  = "\x1b[1m"
	green = "\x1b[1;32m"
	dim   = "\x1b[2m"
	reset = "\x1b[0m"
	// clears one: terminals that clear all at once keep a copy of it to scroll back to
	clearLine  = "\x1b[2K"
	clearBelow = "\x1b[J"
)

// Draw shows the first sequence after a step.
func (w *Watcher) Draw(step *generate.Step) {
	if w.drawImage(step) {
		return
	}
	s := step.Sequences[0]
	fresh := map[int]bool{}
	for _, o := range s.Opened {
		fresh[o.Position] = true
	}
	mask := w.model.Spec().Mask
	first := 0
	if w.answer != nil {
		first = w.answer.Show
	}
	w.drawText(textDrawing{s.Index, step.N, step.Steps, w.positionTexts(s.Tokens),
		func(p int) bool { return s.Tokens[first+p] == mask },
		func(p int) bool { return fresh[first+p] }})
}

// openCell stands for an open position of a picture.
const openCell = "█"

// positionTexts returns the text of each position that is shown, or the cells of a grid.
func (w *Watcher) positionTexts(tokens []int32) []string {
	if w.answer != nil {
		return w.answer.Render(tokens).Pieces()
	}
	spec := w.model.Spec()
	out := make([]string, len(tokens))
	for i, t := range tokens {
		if out[i] = openCell; t == spec.Mask {
			out[i] = prompt.Hole
		}
		if width := spec.Shape[len(spec.Shape)-1]; (i+1)%width == 0 && i+1 < len(tokens) {
			out[i] += "\n"
		}
	}
	return out
}

// drawText draws a picture over the last one.
func (w *Watcher) drawText(s textDrawing) {
	width, height := w.size()
	var b strings.Builder
	w.moveUp(&b)
	fmt.Fprintf(&b, "%s%ssample %d, step %d of %d%s\n%s", clearLine, dim, s.sample, s.step, s.steps,
		reset, clearLine)
	column := 0
	lines := 2 // after the headline, at the start of the text
	for i, piece := range s.texts {
		style := ""
		switch {
		case s.masked(i):
			style = dim
		case s.opened(i):
			style = w.openedStyle
		}
		for _, r := range piece {
			n := runewidth.RuneWidth(r)
			if r == '\n' || column+n > width {
				if lines++; lines >= height {
					break
				}
				b.WriteString("\n" + clearLine)
				column = 0
			}
			if !unicode.IsControl(r) {
				b.WriteString(style)
				b.WriteRune(r)
				if style != "" {
					b.WriteString(reset)
				}
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

// moveUp moves to the start of the last drawing. The terminal may have printed ^C after it.
// In a terminal of another width it stays, since terminals differ in what becomes of its lines.
func (w *Watcher) moveUp(b *strings.Builder) {
	if width, _ := w.size(); width != w.width {
		w.width = width
		w.lines = 0
	}
	if w.lines > 0 {
		fmt.Fprintf(b, "\r\x1b[%dA", w.lines)
	}
}
