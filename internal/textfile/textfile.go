// Package textfile reads texts as editors and programs on any system write them: with or without a
// byte order mark, with lines that end in LF or CR LF.
package textfile

import (
	"bytes"
	"io"
	"strings"
)

// Mark is the byte order mark of UTF-8, with which editors on Windows begin files. No tokenizer
// knows it, and JSON has no place for it.
const Mark = "\ufeff"

// HasMark reports whether a text begins with a byte order mark. A model's own files may not: the
// library that writes them refuses it too.
func HasMark(data []byte) bool { return bytes.HasPrefix(data, []byte(Mark)) }

// TrimMark returns a text without the byte order mark that it begins with.
func TrimMark[Text string | []byte](text Text) Text {
	if len(text) >= len(Mark) && string(text[:len(Mark)]) == Mark {
		return text[len(Mark):]
	}
	return text
}

// TrimLineEnd returns a text without one end of a line after it.
func TrimLineEnd(text string) string {
	line, ok := strings.CutSuffix(text, "\n")
	if !ok {
		return text
	}
	return strings.TrimSuffix(line, "\r")
}

// NewReader returns a reader of what r has after a byte order mark. It waits for no more than the
// bytes that decide whether there is one, so that a terminal's line is answered at once.
func NewReader(r io.Reader) io.Reader { return &reader{rest: r} }

type reader struct {
	rest io.Reader

	// head holds bytes that were read but not yet returned, and err what came after them.
	head    []byte
	err     error
	started bool
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if !r.started {
		r.started = true
		r.skipMark()
	}
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		return n, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.rest.Read(p)
}

// skipMark reads bytes as long as they may be those of a mark.
func (r *reader) skipMark() {
	for r.err == nil && len(r.head) < len(Mark) && strings.HasPrefix(Mark, string(r.head)) {
		firstByte := make([]byte, 1)
		n, err := r.rest.Read(firstByte)
		r.head = append(r.head, firstByte[:n]...)
		r.err = err
	}
	r.head = TrimMark(r.head)
}
