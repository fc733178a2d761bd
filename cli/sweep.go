package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/cli/flags"
	"unmask/cli/share"
	"unmask/cli/terminal"
	"unmask/internal/atomicfile"
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

// newSweep returns the command unmask sweep.
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
		Args: exactArgs(1, "a PLAN.yaml"),
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

// run measures the points of a plan that the journal lacks.
func (f *sweepFlags) run(ctx context.Context, set *pflag.FlagSet, name string) error {
	if err := f.Hub.Check(set, nil, true, ""); err != nil {
		return err
	}
	if err := checkFile("--out", f.out); err != nil {
		return err
	}
	if _, err := f.loadOptions(); err != nil {
		return err
	}
	plan, err := experiments.ReadPlan(name)
	if err != nil {
		return err
	}
	f.model = plan.Model
	judge := taskFlags{
		judges.Measure{
			Judge:     plan.Judge,
			Inception: plan.Inception,
			Reference: plan.Reference,
		},
	}
	m, err := f.newMeasurement(ctx, plan.Kind, judge, &f.Hub)
	if errors.Is(err, flags.ErrUsage) { // a mistake in the plan, not on the command line
		err = fmt.Errorf("%s: %v", name, err)
	}
	if err != nil {
		return err
	}
	points := plan.WithModelSchedule(m.task).Points()
	if err := experiments.CheckPoints(m.task, points); err != nil {
		return err
	}
	_, err = m.measureInto(ctx, f.out, points)
	return printWritten(err, f.out)
}

// logDropped reports the incomplete end of a file, which a crash may leave.
func logDropped(name string, bytes int) {
	if bytes > 0 {
		terminal.Logf("%s: skipped %s after its last complete line", name,
			terminal.FormatCount(bytes, "byte"))
	}
}

// measurement is a task with the journal of its results.
type measurement struct {
	device *deviceFlags
	hub    *share.Hub

	// judge is what the task is made of besides its model.
	judge taskFlags

	task     experiments.Task
	settings experiments.Settings

	// name is that of the journal's file.
	name    string
	journal *experiments.Journal
}

// newMeasurement loads the model of a kind and the judge of its samples, see task.
func (d *deviceFlags) newMeasurement(ctx context.Context, kind string, judge taskFlags,
	h *share.Hub) (*measurement, error) {
	task, settings, err := d.loadTask(ctx, kind, judge)
	return &measurement{device: d, hub: h, judge: judge, task: task, settings: settings}, err
}

// openJournal opens the journal at name and reports an incomplete end that a crash left.
func (m *measurement) openJournal(name string) (err error) {
	m.name = name
	m.journal, err = experiments.OpenJournal(name, m.settings)
	if err == nil {
		logDropped(name, m.journal.Dropped)
	}
	return err
}

// measureInto returns the results of points from the journal at name, into which it measures those
// that are missing there.
func (m *measurement) measureInto(ctx context.Context, name string,
	points []experiments.Point) ([]experiments.Result, error) {
	if err := m.openJournal(name); err != nil {
		return nil, err
	}
	err := m.measurePoints(ctx, points, time.Time{})
	return m.journal.Select(m.task.Kind, points), outputs.RunError(err, m.journal.Close())
}

// measurePoints measures points into the journal: with workers, or alone until a signal or a time,
// which may be zero and after which the error is context.DeadlineExceeded. Progress is on standard
// error.
func (m *measurement) measurePoints(ctx context.Context, points []experiments.Point,
	until time.Time) error {
	kind := m.task.Kind
	if m.hub.Enabled() {
		measure := m.judge.Measure
		measure.Judge = judgeName(measure.Judge, m.device.model)
		return m.hub.MeasurePoints(ctx, m.name, m.journal, m.task, m.settings, m.device.model,
			m.device.as, measure, points)
	}
	runCtx := terminal.GracefulContext(ctx)
	timeUp := false
	if !until.IsZero() {
		var cancel context.CancelFunc
		runCtx, cancel = context.WithDeadline(runCtx, until)
		defer cancel()
	}
	left := len(points) - len(m.journal.Select(kind, points))
	terminal.Logf("%s: %s, %d of them left", kind, terminal.FormatCount(len(points), "point"), left)
	bar := terminal.NewProgress(kind, int64(left))
	first := -1.0 // the share that was there
	err := experiments.Sweep(runCtx, m.journal, m.task, points, func(share float64) bool {
		if first < 0 {
			first = share
		}
		bar.Set(int64(float64(left) * (share - first) / max(1-first, 1e-9)))
		timeUp = !until.IsZero() && !time.Now().Before(until)
		return !timeUp && !terminal.StopRequested(ctx)
	})
	bar.Close()
	switch {
	case errors.Is(err, experiments.ErrStopped) && timeUp:
		return context.DeadlineExceeded
	case errors.Is(err, experiments.ErrStopped):
		terminal.Logf("interrupted: run the same command again to continue")
		return errInterrupted
	}
	return err
}

// newPlot returns the command unmask plot.
func newPlot() *cobra.Command {
	var out, metric string
	cmd := &cobra.Command{
		Use: "plot results.jsonl",
		Example: `  unmask sweep plan.yaml && unmask plot results.jsonl
  unmask plot results.jsonl --out figures.pdf --metric entropy
  unmask plot results.jsonl --out results.csv                   for pandas.read_csv`,
		Short: "Draw a sweep: quality against steps and time, perplexity against entropy (SVG, PNG, PDF)",
		Args:  exactArgs(1, "a results.jsonl of unmask sweep"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, results, dropped, err := experiments.ReadJournal(args[0])
			if err != nil {
				return err
			}
			logDropped(args[0], dropped)
			if filepath.Ext(out) == ".csv" {
				data, err := experiments.CSV(results)
				if err == nil {
					err = atomicfile.Put(out, data)
				}
				return printWritten(err, out)
			}
			charts, err := experiments.RequireCharts(results, metric)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			names, err := experiments.DrawCharts(out, charts)
			return printWritten(err, names...)
		},
	}
	cmd.Flags().StringVar(&out, "out", ".", "write the plots to this `DIR`, or to FILE.pdf, a page for each; to FILE.csv, the results as a table")
	cmd.Flags().StringVar(&metric, "metric", "",
		"the `METRIC` to draw, such as entropy, self_bleu or score (default perplexity of text, frechet of images)")
	return cmd
}

// drawCharts draws charts in a folder or a .pdf, and says the names of the files.
func drawCharts(plots string, charts ...experiments.Chart) error {
	names, err := experiments.DrawCharts(plots, charts)
	for _, name := range names {
		terminal.Log(name)
	}
	return err
}
