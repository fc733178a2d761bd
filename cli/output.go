package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/internal/atomicfile"
)

// checkFile returns an error for an output of a flag that must not be replaced or has no directory.
func checkFile(flag, name string) error {
	if name == "" {
		return nil
	}
	return wrapError(flag, atomicfile.CheckPlace(name))
}

func wrapError(what string, err error) error { return flags.Wrap(what, err) }

// stdout is standard output. On a terminal it spells control characters. It keeps the first error,
// which Main returns if the command did not.
var stdout = &stdoutWriter{}

type stdoutWriter struct{ err error }

// Write implements io.Writer.
func (s *stdoutWriter) Write(p []byte) (int, error) {
	out := p
	n := len(p)
	if term.IsTerminal(int(os.Stdout.Fd())) {
		out = []byte(terminal.EscapeControls(string(p)))
	}
	written, err := os.Stdout.Write(out)
	if err != nil {
		n = min(n, written)
	}
	err = wrapError("standard output", atomicfile.WithoutPath(err))
	if s.err == nil {
		s.err = err
	}
	return n, err
}

// pipeTolerant is w for a run that makes files too, which goes on when w's reader needs no more.
type pipeTolerant struct{ w io.Writer }

func (f pipeTolerant) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	return n, err
}

// writeStdout writes a whole text to standard output.
func writeStdout(text string) error {
	_, err := io.WriteString(stdout, text)
	return err
}

// printValue prints a value as an object of JSON or as its text.
func printValue(v fmt.Stringer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(stdout).Encode(v)
	}
	return writeStdout(v.String())
}

// printWritten prints the names of the files that a command has written, unless err is set, and
// returns err. If standard output has other results, use terminal.Log instead.
func printWritten(err error, names ...string) error {
	for _, name := range names {
		if err == nil {
			err = printLine(name)
		}
	}
	return err
}

func printLine(line string) error { return writeStdout(line + "\n") }
