package terminal

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// LineEditor reads lines from a terminal, with the arrow keys for editing and for earlier lines.
type LineEditor struct{ t *term.Terminal }

// NewLineEditor returns an editor on standard input and standard error.
func NewLineEditor(prompt string) *LineEditor {
	k := &keys{in: os.Stdin}
	e := &LineEditor{term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{k, os.Stderr}, prompt)}
	k.warn = func() { _, _ = io.WriteString(e.t, "Ctrl-C again, or Ctrl-D, ends\n") }
	return e
}

// Line reads a line; lines that are pasted belong to the one that Enter ends. Ctrl-C removes what
// was typed; on an empty line the second one is io.EOF, as Ctrl-D is. Between lines the terminal is
// as it was, so that Ctrl-C is a signal while something else runs.
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
	e.t.SetBracketedPasteMode(true)
	defer e.t.SetBracketedPasteMode(false)
	var pasted strings.Builder
	for {
		line, err := e.t.ReadLine()
		switch err {
		case term.ErrPasteIndicator:
			pasted.WriteString(line + "\n")
			continue
		case io.EOF: // leave the line of the prompt
			_, _ = io.WriteString(os.Stderr, "\r\n")
		}
		return pasted.String() + line, err
	}
}

// keys reads what a terminal sends and changes what x/term does not know or does otherwise.
type keys struct {
	in     io.Reader
	typed  bool   // something stands in the line
	warn   func() // says what a second Ctrl-C does
	warned bool
	rest   []byte
}

// Home and End as tmux, screen, rxvt and terminals in application mode send them.
var otherKeys = strings.NewReplacer("\x1b[1~", "\x1b[H", "\x1b[7~", "\x1b[H", "\x1bOH", "\x1b[H",
	"\x1b[4~", "\x1b[F", "\x1b[8~", "\x1b[F", "\x1bOF", "\x1b[F")

// Read implements io.Reader.
func (k *keys) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		sent := make([]byte, 256)
		n, err := k.in.Read(sent)
		if n == 0 {
			return 0, err
		}
		for _, b := range []byte(otherKeys.Replace(string(sent[:n]))) {
			const ctrlC, toEnd, removeAll = 3, 5, 21
			switch {
			case b == ctrlC && k.typed:
				k.rest = append(k.rest, toEnd, removeAll)
			case b == ctrlC && !k.warned:
				k.warned = true
				k.warn()
				continue
			default:
				k.rest = append(k.rest, b)
			}
			k.typed = b != ctrlC && b != '\r'
			k.warned = k.warned && !k.typed
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	if n == 0 { // a key that was taken here
		return k.Read(p)
	}
	return n, nil
}

// Wrap returns a text in lines of at most so many columns, cut at spaces where there are any.
func Wrap(text string, columns int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.SplitAfter(text, " ") {
		width := runewidth.StringWidth(strings.TrimRight(word, " "))
		if i > 0 && at > 0 && at+width > columns {
			b.WriteByte('\n')
			at = 0
		}
		b.WriteString(word)
		if _, last, ok := strings.Cut(word, "\n"); ok {
			at, word = 0, last[strings.LastIndexByte(last, '\n')+1:]
		}
		at += runewidth.StringWidth(word)
	}
	return b.String()
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
