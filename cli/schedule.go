package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"unmask/cli/flags"
	"unmask/internal/atomicfile"
	"unmask/param"
	"unmask/research/judges"
)

// newSchedule returns the command unmask schedule.
func newSchedule() *cobra.Command {
	var d deviceFlags
	var steps int
	var seed uint64
	cmd := &cobra.Command{
		Use:   "schedule FILE.jsonl",
		Short: "Compute a schedule for a model from samples of text, for --schedule",
		Long: `Compute a schedule for a model from samples of text, for --schedule.

Measures how much the model knows about the samples (lines of unmask text --json, all of one length)
at up to 64 levels of masking, and finds the steps that lose least ("jump your steps", Park et al.
2025; they are also the optimal ones of arXiv 2511.04647). It prints the schedule, for all runs with
that many steps, and notes what it loses to the distribution of the samples where positions open at
random. With few samples, chance decides between steps that lose about as much.`,
		Example: `  unmask text -n 32 --steps 128 --json --out samples.jsonl
  unmask text --steps 16 --schedule "$(unmask schedule samples.jsonl --steps 16)"`,
		Args: exactArgs(1, "a FILE.jsonl of unmask text --json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.findSchedule(cmd, args[0], steps, seed)
		},
	}
	d.register(cmd.Flags(), "demo")
	flags.Int(cmd.Flags(), &steps,
		param.Param{Name: "steps", Min: 1, Max: 1 << 16, Default: "16", Help: "denoising steps N"})
	addSeedFlag(cmd.Flags(), &seed, "seed of which positions are masked; same seed, same schedule")
	return cmd
}

// findSchedule prints a schedule of so many steps for the samples of a file.
func (d *deviceFlags) findSchedule(cmd *cobra.Command, name string, steps int, seed uint64) error {
	ctx := cmd.Context()
	m, err := d.loadText(ctx)
	if err != nil {
		return err
	}
	if steps > m.Spec().Length() {
		return usagef("--steps is %d, want 1 to %d", steps, m.Spec().Length())
	}
	in, err := atomicfile.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	best, err := judges.FindSchedule(ctx, m, in, steps, seed)
	if err != nil {
		return fmt.Errorf("%s: %w", name, atomicfile.WithoutPath(err))
	}
	logNotes(fmt.Sprintf("positions opened at random are %.3g nats of KL from the samples' text, and "+
		"%.3g with schedule uniform", best.KL, best.UniformKL))
	_, err = fmt.Fprintln(cmd.OutOrStdout(), best.Schedule)
	return err
}
