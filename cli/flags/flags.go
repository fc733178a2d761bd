// Package flags has groups of command-line flags besides those of a recipe: what a text begins
// with, the classes, prompts or picture that images start from, and the tokens that may be drawn. A
// command of another program registers the groups that it needs.
package flags

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"unmask"
	"unmask/cli/terminal"
	"unmask/internal/atomicfile"
	"unmask/internal/fasta"
	"unmask/internal/textfile"
	"unmask/param"
	"unmask/tokenizers"
)

// ErrUsage marks errors that are mistakes on the command line; see Usage.
var ErrUsage = errors.New("usage")

// usageError is an error that is ErrUsage.
type usageError struct {
	text string

	// causes are the errors that the text quotes.
	causes []error
}

// Error implements error.
func (e *usageError) Error() string { return e.text }

// Unwrap returns the errors that the text quotes.
func (e *usageError) Unwrap() []error { return e.causes }

// Is reports whether target is ErrUsage.
func (e *usageError) Is(target error) bool { return target == ErrUsage }

// Usagef returns an error that is ErrUsage, for which a program should exit with status 2. It wraps
// the errors among args.
func Usagef(format string, args ...any) error {
	e := &usageError{text: fmt.Sprintf(format, args...)}
	for _, arg := range args {
		if err, ok := arg.(error); ok {
			e.causes = append(e.causes, err)
		}
	}
	return e
}

// NameFlag returns a refused value of a request as a mistake on the command line, with the name of
// its flag. Other errors are returned as they are.
func NameFlag(err error) error {
	refused, ok := errors.AsType[*param.Error](err)
	if !ok {
		return err
	}
	// Fields of requests are called like their flags. A name of several words is no field's.
	isFlag := strings.HasPrefix(err.Error(), refused.Name) && !strings.Contains(refused.Name, " ")
	if isFlag {
		return Usagef("--%v", err)
	}
	return Usagef("%v", err)
}

// Wrap prefixes an error with the name of a flag or stream, unless the error begins with that name:
// "--out" and "out: no space" become "--out: no space". It returns nil for nil.
func Wrap(source string, err error) error {
	if err == nil {
		return nil
	}
	name, isFlag := strings.CutPrefix(source, "--")
	suffix, repeated := strings.CutPrefix(err.Error(), name)
	if isFlag && repeated && suffix != "" && strings.Contains(" :", suffix[:1]) {
		return fmt.Errorf("--%w", err)
	}
	return fmt.Errorf("%s: %w", source, err)
}

// OpenInput opens a text for reading as a stream, without a byte order mark; - is standard input.
func OpenInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(textfile.NewReader(os.Stdin)), nil
	}
	file, err := atomicfile.Open(name)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{textfile.NewReader(file), file}, nil
}

// readInputs reads a file of inputs.
func readInputs(name string) ([]unmask.Input, error) {
	in, err := OpenInput(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var list []unmask.Input
	if fasta.IsFile(name) {
		softMasked := 0
		list, softMasked, err = unmask.ReadFASTA(in)
		LogSoftMasked(softMasked)
	} else {
		list, err = unmask.ReadInputs(in)
	}
	return list, Wrap(name, atomicfile.WithoutPath(err))
}

// LogSoftMasked says that records of a FASTA file have small letters.
func LogSoftMasked(records int) {
	if records > 0 {
		terminal.Logf("note: %s with small letters (soft masking), read as capital ones",
			terminal.FormatCount(records, "record"))
	}
}

// readStdin reads the text on standard input, without a byte order mark and the end of its last
// line. Where no byte comes within a second it says that it waits. It returns when the context
// ends.
func readStdin(ctx context.Context) (string, error) {
	in := bufio.NewReader(terminal.Stdin{Context: ctx})
	note := time.AfterFunc(time.Second, func() {
		terminal.Log("waiting for a prompt on standard input, to its end; </dev/null gives none")
	})
	_, _ = in.Peek(1) // ReadAll returns its error
	note.Stop()

	data, err := io.ReadAll(io.LimitReader(in, tokenizers.MaxText+2))
	if err != nil {
		return "", Wrap("standard input", atomicfile.WithoutPath(err))
	}
	if len(data) > tokenizers.MaxText+1 {
		return "", Usagef("standard input has more than %d bytes", tokenizers.MaxText)
	}
	return textfile.TrimLineEnd(textfile.TrimMark(string(data))), nil
}
