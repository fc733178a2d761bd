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
	keys    *keyReader
	history messageHistory
}

// Stdin is standard input until a context ends: then Read returns its error at once, and what a
// Read that still waits gets is lost.
type Stdin struct{ Context context.Context }

// Read implements io.Reader.
func (s Stdin) Read(p []byte) (int, error) {
	var n int
	var err error
	buffer := make([]byte, len(p))
	done := make(chan struct{})
	go func(in io.Reader) {
		n, err = in.Read(buffer)
		close(done)
	}(os.Stdin)
	select {
	case <-done:
		return copy(p, buffer[:n]), err
	case <-s.Context.Done():
		return 0, s.Context.Err()
	}
}

// NewLineEditor returns an editor on [Stdin] and standard error. The context's end is Line's error.
func NewLineEditor(ctx context.Context, prompt string) *LineEditor {
	k := &keyReader{in: Stdin{ctx}}
	e := &LineEditor{
		keys: k,
		t: term.NewTerminal(struct {
			io.Reader
			io.Writer
		}{k, os.Stderr}, prompt),
	}
	e.t.History = &e.history
	k.resize = e.resize
	k.warn = func() {
		_, _ = io.WriteString(e.t, "Ctrl-C again, or Ctrl-D, ends; /save FILE keeps the conversation\n")
	}
	return e
}

// messageHistory are the messages that the arrow keys bring back, the last one last. It implements
// [term.History]. Line adds them whole, with newline for each end of a line.
type messageHistory []string

const newlineMark = "\u21b5"

func (h *messageHistory) Add(string)      {}
func (h *messageHistory) Len() int        { return len(*h) }
func (h *messageHistory) At(i int) string { return (*h)[len(*h)-1-i] }

// resize makes lines as long as the terminal is wide, which may have changed.
func (e *LineEditor) resize() {
	if width, height, err := term.GetSize(int(os.Stderr.Fd())); err == nil && width > 0 {
		_ = e.t.SetSize(width, height)
	}
}

// ReadMessage reads a message: a line, with those before it that were pasted or end with a
// backslash. Ctrl-C removes what was typed; on an empty line the second one is io.EOF, as Ctrl-D
// is. Between messages the terminal is as it was, so that Ctrl-C is a signal while something else
// runs.
func (e *LineEditor) ReadMessage() (string, error) {
	in := int(os.Stdin.Fd())
	before, err := term.MakeRaw(in)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(in, before) }()
	e.resize()
	e.t.SetBracketedPasteMode(true)
	defer e.t.SetBracketedPasteMode(false)
	for message := ""; ; {
		line, err := e.t.ReadLine()
		if e.keys.discarded {
			message = ""
			e.keys.discarded = false
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
			message = strings.ReplaceAll(message+line, newlineMark, "\n") // of an earlier one
			e.history = append(e.history, strings.ReplaceAll(message, "\n", newlineMark))
			return message, nil
		}
	}
}

// keyReader reads what a terminal sends and changes what x/term does not know or does otherwise.
type keyReader struct {
	in        io.Reader
	hasText   bool   // something stands in the line
	discarded bool   // Ctrl-C came, so that lines before it are no part of a message
	warn      func() // says what a second Ctrl-C does
	resize    func() // is called after each key
	warned    bool
	pending   []byte
}

// Home and End as tmux, screen, rxvt and terminals in application mode send them.
var keyAliases = strings.NewReplacer("\x1b[1~", "\x1b[H", "\x1b[7~", "\x1b[H", "\x1bOH", "\x1b[H",
	"\x1b[4~", "\x1b[F", "\x1b[8~", "\x1b[F", "\x1bOF", "\x1b[F")

// Read implements io.Reader.
func (k *keyReader) Read(p []byte) (int, error) {
	if len(k.pending) == 0 {
		sent := make([]byte, 256)
		n, err := k.in.Read(sent)
		if k.resize(); n == 0 {
			return 0, err
		}
		for _, b := range []byte(keyAliases.Replace(string(sent[:n]))) {
			const ctrlC, toEnd, removeAll = 3, 5, 21
			switch {
			case b == ctrlC && k.hasText:
				k.pending = append(k.pending, toEnd, removeAll)
			case b == ctrlC && !k.warned:
				k.warned = true
				k.discarded = true
				k.warn()
				continue
			default:
				k.pending = append(k.pending, b)
			}
			k.discarded = k.discarded || b == ctrlC
			k.hasText = b != ctrlC && b != '\r'
			k.warned = k.warned && !k.hasText
		}
	}
	n := copy(p, k.pending)
	k.pending = k.pending[n:]
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
		column := 0
		for i, word := range strings.Split(line, " ") {
			if i > 0 && column < columns {
				b.WriteByte(' ')
				column++
			}
			width := runewidth.StringWidth(word) // an end of a line has none
			if column > 0 && width > 0 && column+width > columns {
				b.WriteByte('\n')
				column = 0
			}
			b.WriteString(word)
			column += width
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
