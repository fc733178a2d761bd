package terminal

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"
)

// LineEditor reads lines from a terminal, with the arrow keys for editing and for earlier lines.
type LineEditor struct{ t *term.Terminal }

// NewLineEditor returns an editor on standard input and standard error.
func NewLineEditor(prompt string) *LineEditor {
	return &LineEditor{term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stderr}, prompt)}
}

// Line reads a line. Ctrl-C and Ctrl-D are io.EOF. Between lines the terminal is as it was, so that
// Ctrl-C is a signal while something else runs.
func (e *LineEditor) Line() (string, error) {
	in := int(os.Stdin.Fd())
	before, err := term.MakeRaw(in)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(in, before) }()
	if width, height, err := term.GetSize(int(os.Stderr.Fd())); err == nil && width > 0 {
		_ = e.t.SetSize(width, height)
	}
	line, err := e.t.ReadLine()
	if err == term.ErrPasteIndicator {
		err = nil
	}
	return line, err
}

// Interrupts returns a channel that receives after each SIGINT, which from now on does not stop the
// program: it stops an answer.
func Interrupts(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	if stop, ok := ctx.Value(stopKey{}).(*Stop); ok {
		stop.interrupts.Store(&c)
	}
	return c
}
