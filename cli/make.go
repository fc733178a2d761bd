package cli

import (
	"context"
	"os"

	"github.com/spf13/pflag"

	"unmask/cli/terminal"
	"unmask/runs"
	"unmask/runs/outputs"
)

// followFlags choose how a run is shown and traced.
type followFlags struct{ terminal.Show }

func (f *followFlags) register(s *pflag.FlagSet, what string) {
	s.BoolVar(&f.Watch, "watch", false, "redraw "+what+" in the terminal as they open")
	s.StringVar(&f.Trace, "trace", "",
		"write what opened when, and its probability, to this new `FILE` of JSON lines")
}

// check returns an error for --watch if the terminal cannot be drawn on, and for --trace if the
// file cannot be written.
func (f *followFlags) check() error {
	if f.Watch && !terminal.Draws(os.Stderr) {
		return usage("--watch needs a terminal on standard error")
	}
	return checkFile("--trace", f.Trace)
}

// make makes samples of a job and puts them to out.
func (f *followFlags) make(ctx context.Context, d *deviceFlags, j *outputs.Job, list []runs.Range,
	out outputs.Output, h outputs.Hooks) error {
	f.Name = d.model
	return f.Make(ctx, j, list, out, h)
}
