package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/generate/traces"
	"unmask/internal/atomicfile"
	"unmask/param"
)

const maxFrames = 1000 // a second

func newReplay() *cobra.Command {
	var fps float64
	cmd := &cobra.Command{
		Use:     "replay FILE",
		Example: `  unmask text --trace t.jsonl && unmask replay t.jsonl`,
		Short:   "Show a run again from a file of --trace, without the model",
		Long: `Show a run again from a file of --trace, without the model.

On a terminal it redraws one sample after another, step by step. Elsewhere it prints one line per
step: what opened, with its probability, position and, with partial caching, its stage.`,
		Args: exactly(1, "a FILE of unmask text --trace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return replayFile(cmd.Context(), args[0], fps)
		},
	}
	flags.Float(cmd.Flags(), &fps, param.Param{Name: "fps", Min: 0.001, Max: maxFrames, Default: "8",
		Help: "steps per second, on a terminal"})
	return cmd
}

func replayFile(ctx context.Context, name string, fps float64) error {
	in, err := atomicfile.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	if terminal.Draws(os.Stdout) {
		w := terminal.NewWatcher(nil, os.Stdout)
		wait := time.NewTicker(time.Duration(float64(time.Second) / fps))
		defer wait.Stop()
		err = traces.ReadSamples(in, func(r *traces.State, s *traces.Step) error {
			w.Redraw(r, s)
			select {
			case <-wait.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	} else {
		out := bufio.NewWriter(stdout)
		err = traces.Read(in, func(r *traces.State, s *traces.Step) error {
			r.Print(out, s)
			return cmp.Or(out.Flush(), ctx.Err())
		})
	}
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case errors.As(err, new(*traces.Unfinished)): // the steps that are there were shown
		terminal.Say("%s: %v", name, err)
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}
