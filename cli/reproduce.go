package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/share"
	"unmask/cli/terminal"
	"unmask/research/experiments"
)

// reproduceFlags are those of unmask reproduce.
type reproduceFlags struct {
	deviceFlags
	taskFlags
	share.Hub
	full, quick   bool
	samples       int
	out, markdown string
}

func newReproduce() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce",
		Short: "Repeat the paper's experiments: figures 3 to 6, table 2, and a verdict on each claim",
		Long: `Repeat the experiments of Hayakawa et al. 2025 and write a report.

Without flags the embedded models are measured, in under 20 minutes on two cores. The report is
report.md and report.html (one page with its plots inside), the plots are figures/*.svg and *.png,
the verdicts verdicts.json, and every measured point a line of results-text.jsonl and
results-image.jsonl. After an interruption the same command continues.`,
		Example: `  unmask reproduce
  unmask reproduce --samples 240 --out decided
  unmask reproduce --full --model jdeschena/sdtt@baselines_kld_step_70000 --judge openai-community/gpt2-large
  unmask reproduce --full --model MAGE_DIR --inception pt_inception-2015-12-05-6726825d.pth --reference imagenet`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.Flags()) },
	}
	f.deviceFlags.register(cmd.Flags(), "demo")
	f.taskFlags.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.full, "full", false, "the paper's steps and sample counts")
	cmd.Flags().BoolVar(&f.quick, "quick", false,
		"takes seconds and shows that it works; says nothing about the claims")
	flags.Int(cmd.Flags(), &f.samples, experiments.Samples)
	f.Hub.Register(cmd.Flags())
	cmd.Flags().StringVar(&f.out, "out", "reproduction", "write everything to this `DIR`")
	cmd.Flags().StringVar(&f.markdown, "markdown", "",
		"write the Markdown report to this `FILE` instead of DIR/report.md")
	return cmd
}

func (f *reproduceFlags) size(given *pflag.FlagSet) (experiments.Size, error) {
	s := experiments.Default
	switch {
	case f.full && f.quick:
		return s, usage("--full and --quick together, want one of them")
	case f.full:
		s = experiments.Full
	case f.quick:
		s = experiments.Quick
	}
	if f.model != "demo" {
		s = s.ForPublished()
	}
	if given.Changed("samples") {
		return s.WithSamples(f.samples), nil
	}
	return s, nil
}

func (f *reproduceFlags) run(ctx context.Context, given *pflag.FlagSet) error {
	size, err := f.size(given)
	if err != nil {
		return err
	}
	if err := f.Hub.Check(given, nil, true, ""); err != nil {
		return err
	}
	if f.model == "demo" && (f.Inception != "" || f.Reference != "") {
		return usage("--inception and --reference are for a model of images, --model is demo")
	}
	if unmask.IsExact(f.model) {
		return usage("--model is %s, want networks; unmask theory checks the paper on exact models",
			f.model)
	}
	f.Scenes = size.Image.Scenes
	kinds := []string{""}
	if f.model == "demo" {
		kinds = []string{"image", "text"}
	}
	if err := experiments.CheckJournals(f.out, kinds...); err != nil {
		return err
	}
	var results []experiments.Result
	settings := experiments.Settings{}
	for i, kind := range kinds {
		f.Follow(i+1 < len(kinds))
		r, s, err := f.measure(ctx, kind, size)
		if err != nil {
			return err
		}
		results = append(results, r...)
		maps.Copy(settings, s)
	}
	report := experiments.NewReport(results, size)
	report.Settings, report.Demo = settings, f.model == "demo"
	report.Machine = fmt.Sprintf("%s/%s, %s", runtime.GOOS, runtime.GOARCH, f.ran)
	report.Command = flags.Line("unmask reproduce", given,
		append(share.Sharing(), "out", "markdown")...)
	names, err := report.Write(f.out, f.markdown)
	if err != nil {
		return err
	}
	terminal.Say("report: %s", strings.Join(names, ", "))
	return standardOutput(report.Summary())
}

// measure runs the points of a kind of model.
func (f *reproduceFlags) measure(ctx context.Context, kind string,
	size experiments.Size) ([]experiments.Result, experiments.Settings, error) {
	task, settings, err := f.task(ctx, kind, f.taskFlags)
	if err != nil {
		return nil, nil, err
	}
	points := size.Points(task.Kind())
	name := experiments.JournalName(f.out, task.Kind())
	if err := os.MkdirAll(f.out, 0o777); err != nil {
		return nil, nil, err
	}
	j, err := openJournal(name, settings, nil)
	if err != nil {
		return nil, nil, err
	}
	defer j.Close()
	if err := f.deviceFlags.measure(ctx, &f.Hub, name, j, task, settings, f.taskFlags,
		points); err != nil {
		return nil, nil, err
	}
	return j.Of(task.Kind(), points), settings.Of(task.Kind()), j.Close()
}
