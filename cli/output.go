package cli

import (
	"errors"
	"io"
	"os"

	"unmask/asking"
	"unmask/internal/whole"
)

// checkFile refuses a name of a flag that an output must not replace.
func checkFile(flag, name string) error { return wrap(flag, whole.Check(name)) }

func wrap(what string, err error) error { return asking.Wrap(what, err) }

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

// wrote prints the names of files that a command has written, results like any other, where err is
// nil, and returns err. Where standard output has a command's other results, terminal.Line is used.
func wrote(err error, names ...string) error {
	for _, name := range names {
		if err == nil {
			err = printLine(name)
		}
	}
	return err
}

func printLine(line string) error { return standardOutput(line + "\n") }

// ended returns the error of a run whose outputs were closed: that of closing them counts unless
// the run failed before.
func ended(ran, closed error) error {
	if closed != nil && (ran == nil || errors.Is(ran, errInterrupted)) {
		return closed
	}
	return ran
}
