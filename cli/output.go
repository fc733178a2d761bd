package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"unmask/internal/whole"
	"unmask/tokenizers"
)

// checkFile refuses a name of a flag that an output must not replace.
func checkFile(flag, name string) error { return wrap(flag, whole.Check(name)) }

// wrap says which flag or stream an error is about.
func wrap(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

// stdout is standard output. It remembers the first error, which Main returns where a command did
// not look.
var stdout = &standard{}

type standard struct{ err error }

// Write implements io.Writer.
func (s *standard) Write(p []byte) (int, error) {
	n, err := os.Stdout.Write(p)
	if err = wrap("standard output", whole.Cause(err)); s.err == nil {
		s.err = err
	}
	return n, err
}

// standardOutput writes a whole text.
func standardOutput(text string) error {
	_, err := io.WriteString(stdout, text)
	return err
}

func printLine(line string) error { return standardOutput(line + "\n") }

// readInput reads the text on standard input, without the newline at its end.
func readInput() (string, error) {
	data, err := io.ReadAll(io.LimitReader(os.Stdin, tokenizers.MaxText+2))
	if err != nil {
		return "", wrap("standard input", whole.Cause(err))
	}
	if len(data) > tokenizers.MaxText+1 {
		return "", usage("standard input has more than %d bytes", tokenizers.MaxText)
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// ended returns the error of a run whose outputs were closed: that of closing them counts unless
// the run failed before.
func ended(ran, closed error) error {
	if closed != nil && (ran == nil || errors.Is(ran, errInterrupted)) {
		return closed
	}
	return ran
}
