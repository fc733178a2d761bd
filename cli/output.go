package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"unmask"
	"unmask/generate"
	"unmask/internal/whole"
	"unmask/terminal"
	"unmask/tokenizers"
	"unmask/traces"
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
	if err = wrap("standard output", pathless(err)); s.err == nil {
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
		return "", wrap("standard input", pathless(err))
	}
	if len(data) > tokenizers.MaxText+1 {
		return "", usage("standard input has more than %d bytes", tokenizers.MaxText)
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

func pathless(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// writeWhole makes a file appear whole or not at all, in a directory that it makes.
func writeWhole(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return writeFile(name, data)
}

// writeFile makes a file appear whole or not at all, in a directory that is there.
func writeFile(name string, data []byte) error {
	f, err := whole.Create(name)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// ended returns the error of a run whose outputs were closed: that of closing them counts unless
// the run failed before.
func ended(ran, closed error) error {
	if closed != nil && (ran == nil || errors.Is(ran, errInterrupted)) {
		return closed
	}
	return ran
}

// partName is the file of what an interrupted run has of name: name itself stays as it was.
func partName(name string) string {
	ext := filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + ".part" + ext
}

// tracing writes the trace of --trace; a nil one does nothing.
type tracing struct {
	*traces.Writer
	name string
}

// tokenizer is a model's, nil where it makes no text.
func tokenizer(m *unmask.Model) tokenizers.Tokenizer {
	if m.Text == nil {
		return nil
	}
	return m.Text
}

// openTrace begins the trace of a run at name, nil for none.
func openTrace(name, modelName string, m *unmask.Model, o generate.Options) (*tracing, error) {
	if name == "" {
		return nil, nil
	}
	h := traces.NewHeader(m.Spec(), o, tokenizer(m), modelName, unmask.Hole)
	w, err := traces.Create(name, h, tokenizer(m))
	if err != nil {
		return nil, wrap("--trace", err)
	}
	return &tracing{w, name}, nil
}

func (t *tracing) write(step *generate.Step) error {
	if t == nil {
		return nil
	}
	return wrap("--trace "+t.name, pathless(t.Write(step)))
}

// close makes the trace appear if the run ended well, and what there is of an interrupted one
// beside its name.
func (t *tracing) close(ran error) error {
	switch {
	case t == nil:
		return nil
	case ran == nil:
		return wrap("--trace "+t.name, pathless(t.Close()))
	case errors.Is(ran, errInterrupted):
		part := partName(t.name)
		terminal.Say("%s has the steps so far", part)
		return wrap("--trace "+part, pathless(t.CloseAs(part)))
	}
	t.Discard()
	return nil
}
