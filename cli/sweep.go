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
	m, err := f.measuring(ctx, plan.Kind, by, &f.Hub)
	if errors.Is(err, flags.ErrUsage) { // a mistake in the plan, not on the command line
		err = fmt.Errorf("%s: %v", name, err)
	}
	if err != nil {
		return err
	}
	points := plan.For(m.task).Points()
	if err := experiments.Possible(m.task, points); err != nil {
		return err
	}
	_, err = m.resultsAt(ctx, f.out, points)
	return wrote(err, f.out)
}

func sayDropped(name string, bytes int) {
	if bytes > 0 {
		terminal.Say("%s: what follows its last whole line, %s, is left out", name,
			terminal.Count(bytes, "byte"))
	}
}

// measuring is a task with the journal of its results.
type measuring struct {
	d        *deviceFlags
	hub      *share.Hub
	by       taskFlags // of which the task is made
	task     experiments.Task
	settings experiments.Settings
	name     string // of the journal's file
	journal  *experiments.Journal
}

// measuring loads the model of a kind and the judge of its samples, see task.
func (d *deviceFlags) measuring(ctx context.Context, kind string, by taskFlags,
	h *share.Hub) (*measuring, error) {
	task, settings, err := d.task(ctx, kind, by)
	return &measuring{d: d, hub: h, by: by, task: task, settings: settings}, err
}

// open opens the journal at name and reports an incomplete end that a crash left.
func (m *measuring) open(name string) (err error) {
	m.name = name
	if m.journal, err = experiments.OpenJournal(name, m.settings); err == nil {
		sayDropped(name, m.journal.Dropped)
	}
	return err
}

// resultsAt returns the results of points from the journal at name, into which it measures those
// that are missing there.
func (m *measuring) resultsAt(ctx context.Context, name string,
	points []experiments.Point) ([]experiments.Result, error) {
	if err := m.open(name); err != nil {
		return nil, err
	}
	err := m.measure(ctx, points, time.Time{})
	return m.journal.Of(m.task.Kind(), points), outputs.Ended(err, m.journal.Close())
}

// measure measures points into the journal: with workers, or alone until a signal or a time, which
// may be zero and after which the error is context.DeadlineExceeded. Progress is on standard error.
func (m *measuring) measure(ctx context.Context, points []experiments.Point,
	until time.Time) error {
	kind := m.task.Kind()
	if m.hub.Enabled() {
		by := m.by.Measure
		by.Judge = judgeName(by.Judge, m.d.model)
		return m.hub.Points(ctx, m.name, m.journal, m.task, m.settings, m.d.model, m.d.as, by, points)
	}
	late, over := terminal.Late(ctx), false
	if !until.IsZero() {
		var cancel context.CancelFunc
		late, cancel = context.WithDeadline(late, until)
		defer cancel()
	}
	left := len(points) - len(m.journal.Of(kind, points))
	terminal.Say("%s: %s, %d of them left", kind, terminal.Count(len(points), "point"), left)
	bar, first := terminal.NewProgress(kind, int64(left)), -1.0 // the share that was there
	err := experiments.Sweep(late, m.journal, m.task, points, func(share float64) bool {
		if first < 0 {
			first = share
		}
		bar.Set(int64(float64(left) * (share - first) / max(1-first, 1e-9)))
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
