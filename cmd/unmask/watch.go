package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"unmask"
	"unmask/generate"
)

// watcher redraws a batch's first sequence on the terminal, with what has just opened
// standing out.
type watcher struct {
	m     *unmask.Model
	lines int // drawn last
}

func newWatcher(m *unmask.Model) *watcher { return &watcher{m: m} }

const (
	bold  = "\x1b[1;32m"
	dim   = "\x1b[2m"
	reset = "\x1b[0m"
)

func (w *watcher) draw(step *generate.Step) {
	s := &step.Sequences[0]
	fresh := map[int]bool{}
	for _, o := range s.Opened {
		fresh[o.Position] = true
	}
	width, height, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil || width < 10 {
		width, height = 80, 24
	}
	var b strings.Builder
	w.erase(&b)
	fmt.Fprintf(&b, "%ssample %d, step %d of %d%s\n", dim, s.Index, step.N, step.Steps, reset)
	column, lines := 0, 2 // the headline and the first line of text
	for i, piece := range w.m.Tokenizer.Pieces(s.Tokens) {
		style := ""
		switch {
		case s.Tokens[i] == w.m.Spec().Mask:
			style = dim
		case fresh[i]:
			style = bold
		}
		for _, r := range piece {
			n := runewidth.RuneWidth(r)
			if r == '\n' || column+n > width {
				if lines++; lines >= height {
					break
				}
				b.WriteByte('\n')
				column = 0
			}
			if r >= ' ' {
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
	b.WriteByte('\n')
	os.Stderr.WriteString(b.String())
}

// clear takes the drawing away, so that the result follows the command.
func (w *watcher) clear() {
	var b strings.Builder
	w.erase(&b)
	os.Stderr.WriteString(b.String())
	w.lines = 0
}

func (w *watcher) erase(b *strings.Builder) {
	if w.lines > 0 {
		fmt.Fprintf(b, "\x1b[%dA\x1b[J", w.lines)
	}
}
