package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/internal/atomicfile"
	"unmask/param"
	"unmask/research/judges"
	"unmask/samplers"
)

const scheduleSuffix = ".json"

func newSchedule() *cobra.Command {
	var d deviceFlags
	var out string
	var steps int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "schedule FILE.jsonl",
		Short: "Compute a schedule for a model from samples of text, for --schedule",
		Long: `Compute a schedule for a model from samples of text, for --schedule.

Measures how much the model knows about the samples (lines of unmask text --json, all of one length)
at each level of masking, and puts the steps where they gain most ("jump your steps", Park et al.
2025). The times are stored as JSON, for all runs with that many steps.`,
		Example: `  unmask text -n 32 --steps 128 --json --out samples.jsonl
  unmask schedule samples.jsonl --steps 16 --out times.json
  unmask text --steps 16 --schedule times.json`,
		Args: exactly(1, "a FILE.jsonl of unmask text --json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !strings.HasSuffix(out, scheduleSuffix) {
				return usage("--out is %q, want a name that ends in %s", out, scheduleSuffix)
			}
			if err := wrap("--out", atomicfile.Check(out)); err != nil {
				return err
			}
			return d.findSchedule(cmd.Context(), args[0], out, steps, seed)
		},
	}
	d.register(cmd.Flags(), "demo")
	flags.Int(cmd.Flags(), &steps,
		param.Param{Name: "steps", Min: 1, Max: 1 << 16, Default: "16", Help: "denoising steps N"})
	cmd.Flags().StringVar(&out, "out", "times.json", "write the schedule to this `FILE`")
	seedFlag(cmd.Flags(), &seed, "seed of which positions are masked; same seed, same schedule")
	return cmd
}

func (d *deviceFlags) findSchedule(ctx context.Context, name, out string, steps int,
	seed uint64) error {
	m, err := d.loadText(ctx)
	if err != nil {
		return err
	}
	if steps < 1 || steps > m.Spec().Length() {
		return usage("--steps is %d, want 1 to %d", steps, m.Spec().Length())
	}
	in, err := atomicfile.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	ctx, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	times, err := judges.FindSchedule(ctx, m, in, steps, seed)
	if err != nil {
		return fmt.Errorf("%s: %w", name, atomicfile.Cause(err))
	}
	file, err := samplers.MarshalTimes(times)
	if err != nil {
		return err
	}
	if err := atomicfile.Put(out, file); err != nil {
		return fmt.Errorf("--out %s: %w", out, atomicfile.Cause(err))
	}
	return wrote(nil, out)
}
