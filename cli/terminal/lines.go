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

// Stdin is standard input until a context ends. Read then returns the context's error at once; what
// a Read that still waits receives later is lost.
type Stdin struct{ Context context.Context }

// Read implements io.Reader.
func (s Stdin) Read(p []byte) (int, error) {
	var n int
	var err error
	// The goroutine may outlive this call, so it must not write to p.
	buffer := make([]byte, len(p))
	finished := make(chan struct{})
	go func(in io.Reader) {
		n, err = in.Read(buffer)
		close(finished)
	}(os.Stdin)
	select {
	case <-finished:
		return copy(p, buffer[:n]), err
	case <-s.Context.Done():
		return 0, s.Context.Err()
	}
}

// NewLineEditor returns an editor on [Stdin] and standard error. When the context ends, ReadMessage
// returns its error.
func NewLineEditor(ctx context.Context, prompt string) *LineEditor {
	keys := &keyReader{in: Stdin{ctx}}
	e := &LineEditor{keys: keys}
	e.t = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, os.Stderr}, prompt)
	e.t.History = &e.history
	keys.resize = e.resize
	keys.warn = func() {
		_, _ = io.WriteString(e.t, "Ctrl-C again, or Ctrl-D, ends; /save FILE keeps the conversation\n")
	}
	return e
}

// messageHistory are the messages that the arrow keys bring back, the latest one last. It
// implements [term.History]. Its Add does nothing: ReadMessage adds whole messages, which may be
// several lines, with newlineMark for each end of a line.
type messageHistory []string

// newlineMark stands for an end of a line in a message that the arrow keys bring back.
const newlineMark = "\u21b5"

// Add implements term.History. It does nothing: ReadMessage adds whole messages.
func (h *messageHistory) Add(string) {}

// Len implements term.History.
func (h *messageHistory) Len() int { return len(*h) }

// At implements term.History: 0 is the latest message.
func (h *messageHistory) At(i int) string { return (*h)[len(*h)-1-i] }

// resize makes lines as long as the terminal is wide, which may have changed since the last key.
func (e *LineEditor) resize() {
	width, height, err := term.GetSize(int(os.Stderr.Fd()))
	if err == nil && width > 0 {
		_ = e.t.SetSize(width, height)
	}
}

// ReadMessage reads a message: a line, with those before it that were pasted or end with a
// backslash. Ctrl-C discards what was typed; on an empty line the second one is io.EOF, as Ctrl-D
// is. Between messages the terminal is as it was, so that Ctrl-C is a signal while something else
// runs.
func (e *LineEditor) ReadMessage() (string, error) {
	in := int(os.Stdin.Fd())
	saved, err := term.MakeRaw(in)
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(in, saved) }()
	e.resize()
	e.t.SetBracketedPasteMode(true)
	defer e.t.SetBracketedPasteMode(false)

	message := ""
	for {
		line, err := e.t.ReadLine()
		if e.keys.discarded {
			message = ""
			e.keys.discarded = false
		}
		switch {
		case err == term.ErrPasteIndicator:
			message += line + "\n"
		case err != nil:
			_, _ = io.WriteString(os.Stderr, "\r\n") // leave the line of the prompt
			return "", err
		case strings.HasSuffix(line, `\`):
			message += line[:len(line)-1] + "\n"
		default:
			// A message from the history has marks for its ends of lines.
			message = strings.ReplaceAll(message+line, newlineMark, "\n")
			e.history = append(e.history, strings.ReplaceAll(message, "\n", newlineMark))
			return message, nil
		}
	}
}

// keyReader reads what a terminal sends and translates the keys that x/term does not know, or acts
// on otherwise than here.
type keyReader struct {
	in io.Reader

	// hasText reports whether the line has any text, and discarded that Ctrl-C came: earlier lines
	// are no part of the message then.
	hasText   bool
	discarded bool

	// warn shows what a second Ctrl-C does, and warned that it has.
	warn   func()
	warned bool

	// resize is called after each key.
	resize func()

	// pending are bytes that were translated but not read yet.
	pending []byte
}

// keyAliases translates Home and End as tmux, screen, rxvt and terminals in application mode send
// them.
var keyAliases = strings.NewReplacer(
	"\x1b[1~", "\x1b[H", "\x1b[7~", "\x1b[H", "\x1bOH", "\x1b[H",
	"\x1b[4~", "\x1b[F", "\x1b[8~", "\x1b[F", "\x1bOF", "\x1b[F")

// Read implements io.Reader. It returns 0 bytes only with an error: a key that is handled here, and
// not passed on, makes it wait for the next one.
func (k *keyReader) Read(p []byte) (int, error) {
	for len(k.pending) == 0 {
		buffer := make([]byte, 256)
		n, err := k.in.Read(buffer)
		k.resize()
		if n == 0 {
			return 0, err
		}
		k.translate(buffer[:n])
	}
	n := copy(p, k.pending)
	k.pending = k.pending[n:]
	return n, nil
}

// translate appends the bytes of keys to those that are pending.
func (k *keyReader) translate(sent []byte) {
	const (
		ctrlC     = 3
		toEnd     = 5  // Ctrl-E
		removeAll = 21 // Ctrl-U
	)
	for _, b := range []byte(keyAliases.Replace(string(sent))) {
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

// WrapText returns a text in lines of at most so many columns, divided at spaces where there are
// any. A space at which a line is divided stays at the line's end if that has room for it.
func WrapText(text string, columns int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		column := 0
		for i, word := range strings.Split(line, " ") {
			if i > 0 && column < columns {
				b.WriteByte(' ')
				column++
			}
			width := runewidth.StringWidth(word) // 0 for an end of a line
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
