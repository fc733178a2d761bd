package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/cli/flags"
	"unmask/cli/share"
	"unmask/cli/terminal"
	"unmask/research/experiments"
	"unmask/research/judges"
	"unmask/runs/outputs"
)

// sweepFlags are those of unmask sweep.
type sweepFlags struct {
	deviceFlags
	share.Hub
	out string
}

func newSweep() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:     "sweep PLAN.yaml",
		Short:   "Measure samplers x steps x alpha x cache x seeds; continues after an interruption",
		Example: `  unmask sweep plan.yaml && unmask plot results.jsonl`,
		Long: `Measure every combination that a plan lists, and append each result to a file.

  model: demo                       # or a directory, org/name[@revision], or oracle:markov:length=16
  kind: text                        # or image
  judge: demo                       # for text; an exact model judges itself
  samplers: [random, hybrid]        # see unmask samplers
  steps: [8, 16, 32]
  alpha: [3, 6]                     # Gumbel temperature, for samplers that have one
  cache: [0, 1]                     # for samplers that allow partial caching
  seeds: [0, 1, 2]                  # repeats
  n: 64                             # samples of each combination
  batch: 16                         # samples at once; each batch is timed
  length: 128                       # tokens of a text
  schedule: [uniform, cosine]       # and temperature, top-p, top-k, reuse, ...: as the flags of unmask text

After an interruption the same command continues.`,
		Args: exactly(1, "a PLAN.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), cmd.Flags(), args[0])
		},
	}
	f.registerAs(cmd.Flags())
	f.registerCompute(cmd.Flags())
	f.Hub.Register(cmd.Flags())
	cmd.Flags().StringVar(&f.out, "out", "results.jsonl", "append results to this `FILE`")
	return cmd
}

func (f *sweepFlags) run(ctx context.Context, given *pflag.FlagSet, name string) error {
	if err := cmp.Or(f.Hub.Check(given, nil, true, ""), checkFile("--out", f.out)); err != nil {
		return err
	}
	if _, err := f.options(); err != nil {
		return err
	}
	plan, err := experiments.ReadPlan(name)
	if err != nil {
		return err
	}
	f.model = plan.Model
	by := taskFlags{judges.Measure{Judge: plan.Judge, Inception: plan.Inception,
		Reference: plan.Reference}}
	task, settings, err := f.task(ctx, plan.Kind, by)
	if errors.Is(err, flags.ErrUsage) { // a mistake in the plan, not on the command line
		err = fmt.Errorf("%s: %v", name, err)
	}
	if err != nil {
		return err
	}
	points := plan.For(task).Points()
	if err := experiments.Possible(task, points); err != nil {
		return err
	}
	_, err = f.resultsAt(ctx, &f.Hub, f.out, task, settings, by, points)
	return wrote(err, f.out)
}

// openJournal opens results and reports an incomplete end that a crash left.
func openJournal(name string, s experiments.Settings) (*experiments.Journal, error) {
	j, err := experiments.OpenJournal(name, s)
	if err == nil {
		sayDropped(name, j.Dropped)
	}
	return j, err
}

func sayDropped(name string, bytes int) {
	if bytes > 0 {
		terminal.Say("%s: what follows its last whole line, %s, is left out", name,
			terminal.Count(bytes, "byte"))
	}
}

// resultsAt returns the results of points from the journal at name, into which it measures those
// that are missing there; see measure.
func (d *deviceFlags) resultsAt(ctx context.Context, h *share.Hub, name string,
	task experiments.Task, s experiments.Settings, by taskFlags,
	points []experiments.Point) ([]experiments.Result, error) {
	j, err := openJournal(name, s)
	if err != nil {
		return nil, err
	}
	err = d.measure(ctx, h, name, j, task, s, by, points)
	return j.Of(task.Kind(), points), outputs.Ended(err, j.Close())
}

// measure measures points into the journal at name, alone or with workers. The task was made from
// by.
func (d *deviceFlags) measure(ctx context.Context, h *share.Hub, name string,
	j *experiments.Journal, task experiments.Task, s experiments.Settings, by taskFlags,
	points []experiments.Point) error {
	if !h.Enabled() {
		return sweep(ctx, j, task, points, time.Time{})
	}
	by.Judge = judgeName(by.Judge, d.model)
	return h.Points(ctx, name, j, task, s, d.model, d.as, by.Measure, points)
}

// sweep measures points and shows progress on standard error, until a signal or a time, which may
// be zero; after it the error is context.DeadlineExceeded.
func sweep(ctx context.Context, j *experiments.Journal, task experiments.Task,
	points []experiments.Point, until time.Time) error {
	late, over := terminal.Late(ctx), false
	if !until.IsZero() {
		var cancel context.CancelFunc
		late, cancel = context.WithDeadline(late, until)
		defer cancel()
	}
	bar := terminal.NewSweep(j, task.Kind(), points)
	err := experiments.Sweep(late, j, task, points, func(p experiments.Progress) bool {
		bar.Show(p)
		over = !until.IsZero() && !time.Now().Before(until)
		return !over && !terminal.Stopped(ctx)
	})
	bar.Close()
	switch {
	case errors.Is(err, experiments.ErrStopped) && over:
		return context.DeadlineExceeded
	case errors.Is(err, experiments.ErrStopped):
		terminal.Say("interrupted: the same command goes on")
		return errInterrupted
	}
	return err
}
