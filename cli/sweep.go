package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"unmask/experiments"
	"unmask/internal/whole"
	"unmask/judges"
)

// sweepFlags are those of unmask sweep.
type sweepFlags struct {
	deviceFlags
	out string
}

func newSweep() *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep PLAN.yaml",
		Short: "Measure samplers x steps x alpha x cache x seeds; goes on where it was stopped",
		Long: `Measure every combination that a plan lists, and append each result to a file.

  model: demo                       # or a directory, org/name[@revision], or oracle:markov:length=16
  kind: text                        # or image
  judge: demo                       # of text; an exact model judges itself
  samplers: [random, hybrid]        # see unmask samplers
  steps: [8, 16, 32]
  alpha: [3, 6]                     # for samplers with a Gumbel temperature
  cache: [0, 1]                     # for samplers that can
  seeds: [0, 1, 2]                  # repeats
  n: 64                             # samples of each
  batch: 16                         # at once; each batch is timed
  length: 128                       # of text
  schedule: [uniform, cosine]       # and temperature, top-p, top-k, reuse, ...: as the flags of unmask text

The same command goes on where it was stopped, or killed.`,
		Args: exactly(1, "a PLAN.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0])
		},
	}
	f.registerCompute(cmd.Flags())
	cmd.Flags().StringVar(&f.out, "out", "results.jsonl", "append results to this `FILE`")
	return cmd
}

func (f *sweepFlags) run(ctx context.Context, name string) error {
	plan, err := readPlan(name)
	if err != nil {
		return err
	}
	f.model = plan.Model
	task, settings, err := f.task(ctx, plan.Kind, taskFlags{judges.Measure{Judge: plan.Judge, Inception: plan.Inception, Reference: plan.Reference}})
	if err != nil {
		return err
	}
	j, err := openJournal(f.out, settings)
	if err != nil {
		return err
	}
	err = sweep(ctx, j, task, plan.Points())
	if closed := j.Close(); err == nil {
		err = closed
	}
	return err
}

// openJournal opens results, and says what a crash left that cannot be read.
func openJournal(name string, s experiments.Settings) (*experiments.Journal, error) {
	j, err := experiments.OpenJournal(name, s)
	if err == nil {
		sayDropped(name, j.Dropped)
	}
	return j, err
}

func sayDropped(name string, bytes int) {
	if bytes > 0 {
		say("%s: its last line was cut: %d bytes are left out", name, bytes)
	}
}

func readPlan(name string) (experiments.Plan, error) {
	info, err := os.Stat(name)
	if err != nil {
		return experiments.Plan{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > experiments.MaxPlan {
		return experiments.Plan{}, fmt.Errorf("%s: a %s of %d bytes, allowed is a file of %d", name, whole.Kind(info), info.Size(), experiments.MaxPlan)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return experiments.Plan{}, err
	}
	plan, err := experiments.ParsePlan(data)
	if err != nil {
		return plan, fmt.Errorf("%s: %w", name, err)
	}
	return plan, nil
}

// sweep measures points with progress on standard error, until an interrupt.
func sweep(ctx context.Context, j *experiments.Journal, task experiments.Task, points []experiments.Point) error {
	bar := newSweepProgress(j, task.Kind(), points)
	err := experiments.Sweep(ctx, j, task, points, func(p experiments.Progress) bool {
		bar.show(p)
		return !stopped(ctx)
	})
	bar.close()
	if errors.Is(err, experiments.ErrStopped) {
		say("interrupted: the same command goes on")
		return errInterrupted
	}
	return err
}

// sweepProgress is a progress in thousandths of the work, with a line for each point where there
// is no terminal.
type sweepProgress struct {
	*progress
	index int
	start time.Time
	first float64 // share that was there at the start
}

func newSweepProgress(j *experiments.Journal, kind string, points []experiments.Point) *sweepProgress {
	left := 0
	for _, p := range points {
		if _, ok := j.Find(kind, p); !ok {
			left++
		}
	}
	say("%s: %d points, %d of them left", kind, len(points), left)
	return &sweepProgress{progress: newProgress(kind, 1000), index: -1, start: time.Now(), first: -1}
}

func (s *sweepProgress) show(p experiments.Progress) {
	share := p.Done / p.Total
	if s.first < 0 {
		s.first = share
	}
	if s.bar != nil {
		s.set(int64(1000 * share))
		return
	}
	if time.Since(s.last) < progressEvery || p.Index == s.index {
		return
	}
	s.last, s.index = time.Now(), p.Index
	left := "?"
	if share > s.first {
		left = time.Duration(float64(time.Since(s.start)) * (1 - share) / (share - s.first)).Round(time.Second).String()
	}
	say("%s: point %d of %d (%s), %.0f %%, %s left", p.Kind, p.Index+1, p.Points, p.Point, 100*share, left)
}

// settings are what the times and values of results depend on besides the models.
func (f *deviceFlags) settings() experiments.Settings {
	return experiments.Settings{"threads": fmt.Sprint(f.threads), "precision": f.precision}
}
