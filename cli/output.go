package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/internal/atomicfile"
)

// checkFile returns an error for the file of a flag that must not be replaced, or whose directory
// does not exist: before a long run, and not after it.
func checkFile(flag, name string) error {
	if name == "" {
		return nil
	}
	return wrapError(flag, atomicfile.CheckPlace(name))
}

// wrapError prefixes an error with the name of a flag or stream, see flags.Wrap.
func wrapError(source string, err error) error { return flags.Wrap(source, err) }

// stdout is standard output. On a terminal it spells control characters. It keeps the first error,
// which Main returns if the command did not.
var stdout = &stdoutWriter{}

// stdoutWriter writes to standard output and keeps its first error.
type stdoutWriter struct{ err error }

// Write implements io.Writer.
func (s *stdoutWriter) Write(p []byte) (int, error) {
	out := p
	n := len(p)
	if term.IsTerminal(int(os.Stdout.Fd())) {
		out = []byte(terminal.EscapeControls(string(p)))
	}
	written, err := os.Stdout.Write(out)
	if err != nil { // written counts escapes, which may be more bytes than p has
		n = min(n, written)
	}
	err = wrapError("standard output", atomicfile.WithoutPath(err))
	if s.err == nil {
		s.err = err
	}
	return n, err
}

// pipeTolerant writes to w, but hides that w's reader needs no more: a run that makes files too
// must go on then.
type pipeTolerant struct{ w io.Writer }

// Write implements io.Writer.
func (f pipeTolerant) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	return n, err
}

// terminalColumns returns the width of a terminal, 0 of what is none.
func terminalColumns(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// wrappingWriter writes whole texts to standard output, in lines that fit the terminal.
type wrappingWriter struct{}

// Write implements io.Writer.
func (wrappingWriter) Write(p []byte) (int, error) {
	columns := terminalColumns(os.Stdout)
	if columns == 0 {
		return stdout.Write(p)
	}
	_, err := io.WriteString(stdout, terminal.WrapText(string(p), columns))
	return len(p), err
}

// noteSeed says on a terminal that a run had the seed that all runs have without --seed.
func noteSeed(set *pflag.FlagSet) {
	if !set.Changed("seed") && term.IsTerminal(int(os.Stderr.Fd())) {
		terminal.LogWrappedf("seed 0 was used, as always without --seed; --seed 1 gives another result")
	}
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

// printLine writes a line to standard output.
func printLine(line string) error { return writeStdout(line + "\n") }
