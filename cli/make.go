package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/generate"
	"unmask/outputs"
	"unmask/terminal"
)

// followFlags show and write down how a run goes.
type followFlags struct {
	watch bool
	trace string
}

func (f *followFlags) register(s *pflag.FlagSet, what string) {
	s.BoolVar(&f.watch, "watch", false, "redraw "+what+" in the terminal as they open")
	s.StringVar(&f.trace, "trace", "",
		"write what opened when, with which probability, to this new `FILE` for unmask replay")
}

// check refuses --watch where nothing can be drawn.
func (f *followFlags) check() error {
	if f.watch && !terminal.Draws(os.Stderr) {
		return usage("--watch needs a terminal on standard error")
	}
	return nil
}

// say writes a message of a library to standard error.
func say(line string) { terminal.Say("%s", line) }

// make makes the samples of a list of runs, which are parts of r, and puts them to out. model is
// the name in the trace. h may have more to do.
func (f *followFlags) make(ctx context.Context, model string, m *unmask.Model, r unmask.Run,
	list []unmask.Run, out outputs.Output, h outputs.Hooks) error {
	trace, err := outputs.OpenTrace(f.trace, model, m, r, say)
	if err != nil {
		return wrap("--trace", err)
	}
	p := terminal.NewProgress("steps", outputs.Steps(list))
	defer p.Close()
	show := func(*generate.Step) { p.Add(1) }
	if f.watch {
		w := terminal.NewWatcher(m, os.Stderr)
		defer w.Clear()
		out, show = cleared{out, w}, w.Draw
	}
	more := h.Step
	h.Step = func(step *generate.Step) error {
		show(step)
		if more != nil {
			if err := more(step); err != nil {
				return err
			}
		}
		return wrap("--trace", trace.Step(step))
	}
	h.Stop = func() bool { return terminal.Stopped(ctx) }
	err = outputs.Make(ctx, m, list, out, h)
	if errors.Is(err, errInterrupted) {
		p.Close()
		say(err.Error())
	}
	return ended(err, wrap("--trace", trace.Close(err)))
}

// cleared takes the drawing of a run away before its samples are written.
type cleared struct {
	outputs.Output
	w *terminal.Watcher
}

// Put implements outputs.Output.
func (c cleared) Put(samples []outputs.Sample) error {
	c.w.Clear()
	return c.Output.Put(samples)
}
