package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/param"
	"unmask/research/experiments"
)

// tuneFlags are those of unmask tune.
type tuneFlags struct {
	deviceFlags
	taskFlags
	kind   string
	budget time.Duration
	limit  time.Duration
	n      int
	batch  int
	length int
	seed   uint64
	json   bool
}

// tuneReport is the JSON of the result.
type tuneReport struct {
	// Frontier are the settings of which no other is faster and better.
	Frontier []experiments.Setting `json:"frontier"`

	// Command runs the best of them.
	Command string `json:"command"`
}

// newTune returns the command unmask tune.
func newTune() *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Find the best sampler, schedule, steps, alpha and cache within a time per sample",
		Args:  noArgs,
		Example: `  unmask tune --budget 200ms
  unmask tune --model jdeschena/sdtt@baselines_kld_step_70000 --judge openai-community/gpt2 --budget 20s`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	f.deviceFlags.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&f.kind, "kind", "",
		"for --model demo: text or image; other models have one kind (default text)")
	f.taskFlags.register(cmd.Flags())
	flags.Duration(cmd.Flags(), &f.budget, "budget", 2*time.Second,
		"time per sample, its share of a batch's time")
	flags.Duration(cmd.Flags(), &f.limit, "limit", 5*time.Minute,
		"time of the search; the best setting found by then counts")
	flags.IntP(cmd.Flags(), &f.n, "n",
		param.Param{
			Name:    "n",
			Min:     2,
			Max:     maxTuneSamples,
			Default: "64",
			Help:    "samples per setting in the last round",
		})
	flags.Int(cmd.Flags(), &f.batch,
		param.Param{Name: "batch", Min: 1, Max: maxTuneSamples, Default: "4", Help: "samples at once"})
	flags.Length(cmd.Flags(), &f.length)
	addSeedFlag(cmd.Flags(), &f.seed, "same seed, same samples")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object: frontier, command")
	return cmd
}

const maxTuneSamples = 1 << 20

// run searches settings and prints those that no other one beats.
func (f *tuneFlags) run(ctx context.Context) error {
	switch {
	case f.budget <= 0:
		return usagef("--budget is %v, want a time above 0", f.budget)
	case f.limit <= 0:
		return usagef("--limit is %v, want a time above 0", f.limit)
	case f.kind != "" && f.kind != "text" && f.kind != "image":
		return usagef("--kind is %q, want text or image", f.kind)
	}
	if f.kind == "" && f.model == "demo" {
		f.kind = "text"
	}
	task, _, err := f.loadTask(ctx, f.kind, f.taskFlags)
	if err != nil {
		return err
	}
	var p *terminal.Progress
	settings, err := experiments.Tune(terminal.GracefulContext(ctx), task,
		experiments.Tuning{
			Budget: f.budget.Seconds(),
			N:      f.n,
			Batch:  min(f.batch, f.n),
			Length: f.length,
			Seed:   f.seed,
			Limit:  f.limit,
			Begin:  f.logPlan,
		},
		func(measured, total int, _ experiments.Point) bool {
			if measured == 0 {
				p = terminal.NewProgress("settings", int64(total))
			}
			p.Set(int64(measured))
			return !terminal.StopRequested(ctx)
		})
	p.Close()
	if err != nil {
		return err
	}
	if len(settings) == 0 {
		return errInterrupted
	}
	err = f.printFrontier(task, settings)
	if err == nil && terminal.StopRequested(ctx) {
		err = errInterrupted
	}
	return err
}

// logPlan says, before the search begins, how long it will take.
func (f *tuneFlags) logPlan(settings int, about time.Duration) {
	about = max(about.Round(time.Second), time.Second)
	if about >= f.limit {
		terminal.Logf("%s to try within --limit %v; all of them would take about %v",
			terminal.FormatCount(settings, "setting"), f.limit, about)
		return
	}
	terminal.Logf("%s to try, in about %v", terminal.FormatCount(settings, "setting"), about)
}

// printFrontier shows the frontier, the best last, and the command of the best.
func (f *tuneFlags) printFrontier(task experiments.Task, settings []experiments.Setting) error {
	front := experiments.Frontier(settings)
	best := front[len(front)-1]
	command, err := best.Command(task.Kind, f.model, task.Model.Spec(), task.ModelRecipe)
	if err != nil {
		return err
	}
	if f.precision != "f32" {
		command += " --precision " + f.precision
	}
	if f.device != "auto" {
		command += " --device " + f.device
	}
	if f.json {
		return json.NewEncoder(stdout).Encode(tuneReport{front, command})
	}
	return writeStdout(fmt.Sprintf("%s\n%s\n", experiments.SettingsTable(front), command))
}
