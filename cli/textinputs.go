package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/generate"
	"unmask/internal/whole"
	"unmask/outputs"
	"unmask/terminal"
)

// readPrompts reads --prompts, and refuses flags that are of one sample.
func (f *textFlags) readPrompts(flags *pflag.FlagSet) (err error) {
	if f.prompts == "" {
		return nil
	}
	for _, other := range []string{"prompt", "infill", "tokens-in", "chat", "messages", "watch",
		"trace"} {
		if flags.Changed(other) {
			return usage("--prompts and --%s together, want one of them", other)
		}
	}
	if f.inputs, err = readInputs(f.prompts); err != nil {
		return usage("--prompts: %v", err)
	}
	if !flags.Changed("n") {
		f.n = len(f.inputs)
	}
	return nil
}

// readInputs reads a file of inputs.
func readInputs(name string) ([]unmask.Input, error) {
	in, err := openInput(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	list, err := unmask.ReadInputs(in)
	return list, wrap(name, whole.Cause(err))
}

// openInput opens a file to read it as it comes; - is standard input.
func openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	return whole.Open(name)
}

// makeEach makes the samples of --prompts.
func (f *textFlags) makeEach(ctx context.Context, flags *pflag.FlagSet, m *unmask.Model,
	out *outputs.Texts, o generate.Options) error {
	o.N, o.Length = f.n, f.length
	if err := f.constrain(m, &o); err != nil {
		return err
	}
	requests, err := m.Requests(o, f.inputs, !flags.Changed("steps"))
	if err != nil {
		return usage("--prompts: %v", err)
	}
	o.Length = requests.Longest
	f.fitSteps(flags, &o, o.Length)
	if o, err = m.Check(o); err != nil {
		return usage("%v", err)
	}
	s, err := f.settings(m, o)
	if err != nil {
		return err
	}
	s["known"] = requests.Hash()
	if o, err = out.Begin(m, o, s); err != nil || o.N == 0 {
		return wrap("--out", err)
	}
	return terminal.MakeEach(ctx, m, o, requests, out)
}
