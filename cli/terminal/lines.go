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
type LineEditor struct {
	t       *term.Terminal
	keys    *keys
	earlier earlier
}

// Stdin is standard input until a context ends: then Read returns its error at once, and what a
// Read that still waits gets is lost.
type Stdin struct{ Context context.Context }

// Read implements io.Reader.
func (s Stdin) Read(p []byte) (int, error) {
	var n int
	var err error
	own := make([]byte, len(p))
	done := make(chan struct{})
	go func(in io.Reader) {
		n, err = in.Read(own)
		close(done)
	}(os.Stdin)
	select {
	case <-done:
		return copy(p, own[:n]), err
	case <-s.Context.Done():
		return 0, s.Context.Err()
	}
}

// NewLineEditor returns an editor on [Stdin] and standard error. The context's end is Line's error.
func NewLineEditor(ctx context.Context, prompt string) *LineEditor {
	k := &keys{in: Stdin{ctx}}
	e := &LineEditor{
		keys: k,
		t: term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{k, os.Stderr}, prompt),
	}
	e.t.History = &e.earlier
	k.fit = e.fit
	k.warn = func() {
		_, _ = io.WriteString(e.t, "Ctrl-C again, or Ctrl-D, ends; /save FILE keeps the conversation\n")
	}
	return e
}

// earlier are the messages that the arrow keys bring back, the last one last. It implements
// [term.History]. Line adds them whole, with newline for each end of a line.
type earlier []string

const newline = "\u21b5"

func (h *earlier) Add(string)      {}
func (h *earlier) Len() int        { return len(*h) }
func (h *earlier) At(i int) string { return (*h)[len(*h)-1-i] }

// fit makes lines as long as the terminal is wide, which may have changed.
func (e *LineEditor) fit() {
	if width, height, err := term.GetSize(int(os.Stderr.Fd())); err == nil && width > 0 {
		_ = e.t.SetSize(width, height)
	}
}

// Line reads a message: a line, with those before it that were pasted or end with a backslash.
// Ctrl-C removes what was typed; on an empty line the second one is io.EOF, as Ctrl-D is. Between
// messages the terminal is as it was, so that Ctrl-C is a signal while something else runs.
func (e *LineEditor) Line() (string, error) {
	in := int(os.Stdin.Fd())
	before, err := term.MakeRaw(in)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(in, before) }()
	e.fit()
	e.t.SetBracketedPasteMode(true)
	defer e.t.SetBracketedPasteMode(false)
	for message := ""; ; {
		line, err := e.t.ReadLine()
		if e.keys.removed {
			message = ""
			e.keys.removed = false
		}
		switch {
		case err == term.ErrPasteIndicator:
			message += line + "\n"
		case err != nil: // leave the line of the prompt
			_, _ = io.WriteString(os.Stderr, "\r\n")
			return "", err
		case strings.HasSuffix(line, `\`):
			message += line[:len(line)-1] + "\n"
		default:
			message = strings.ReplaceAll(message+line, newline, "\n") // of an earlier one
			e.earlier = append(e.earlier, strings.ReplaceAll(message, "\n", newline))
			return message, nil
		}
	}
}

// keys reads what a terminal sends and changes what x/term does not know or does otherwise.
type keys struct {
	in      io.Reader
	typed   bool   // something stands in the line
	removed bool   // Ctrl-C came, so that lines before it are no part of a message
	warn    func() // says what a second Ctrl-C does
	fit     func() // is called after each key
	warned  bool
	rest    []byte
}

// Home and End as tmux, screen, rxvt and terminals in application mode send them.
var otherKeys = strings.NewReplacer("\x1b[1~", "\x1b[H", "\x1b[7~", "\x1b[H", "\x1bOH", "\x1b[H",
	"\x1b[4~", "\x1b[F", "\x1b[8~", "\x1b[F", "\x1bOF", "\x1b[F")

// Read implements io.Reader.
func (k *keys) Read(p []byte) (int, error) {
	if len(k.rest) == 0 {
		sent := make([]byte, 256)
		n, err := k.in.Read(sent)
		if k.fit(); n == 0 {
			return 0, err
		}
		for _, b := range []byte(otherKeys.Replace(string(sent[:n]))) {
			const ctrlC, toEnd, removeAll = 3, 5, 21
			switch {
			case b == ctrlC && k.typed:
				k.rest = append(k.rest, toEnd, removeAll)
			case b == ctrlC && !k.warned:
				k.warned = true
				k.removed = true
				k.warn()
				continue
			default:
				k.rest = append(k.rest, b)
			}
			k.removed = k.removed || b == ctrlC
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

// WrapText returns a text in lines of at most so many columns, cut at spaces where there are any.
// Those stay at the end of a line that has room.
func WrapText(text string, columns int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		at := 0
		for i, word := range strings.Split(line, " ") {
			if i > 0 && at < columns {
				b.WriteByte(' ')
				at++
			}
			width := runewidth.StringWidth(word) // an end of a line has none
			if at > 0 && width > 0 && at+width > columns {
				b.WriteByte('\n')
				at = 0
			}
			b.WriteString(word)
			at += width
		}
	}
	return b.String()
}

// NotifyInterrupts returns a channel that receives after each SIGINT, which from now on does not
// stop the program: it stops an answer.
func NotifyInterrupts(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	if stop, ok := ctx.Value(stopKey{}).(*StopSignal); ok {
		stop.interrupts.Store(&c)
	}
	return c
}
