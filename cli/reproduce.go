package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/catalog"
	"unmask/cli/flags"
	"unmask/cli/share"
	"unmask/cli/terminal"
	"unmask/internal/processor"
	"unmask/research/experiments"
)

// reproduceFlags are those of unmask reproduce.
type reproduceFlags struct {
	deviceFlags
	taskFlags
	share.Hub
	full     bool
	quick    bool
	redraw   bool // measures nothing
	samples  int
	decide   time.Duration // for further samples of what is undecided
	out      string
	markdown string
}

// newReproduce returns the command unmask reproduce.
func newReproduce() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce",
		Short: "Repeat the paper's experiments: figures 3 to 6, table 2, and a verdict on each claim",
		Long: `Repeat the experiments of Hayakawa et al. 2025 and write a report.

Without flags the embedded models are measured, in about 20 minutes on two cores. The report is
report.md and report.html (one page with its plots inside), the plots are figures/*.svg and *.png,
the verdicts verdicts.json, and every measured point a line of results-image.jsonl,
results-text.jsonl and, for the models whose distribution is known, results-letters.jsonl and
results-topics.jsonl. After an interruption the same command continues. --redraw beside its flags
writes the report again from these results alone: it measures nothing and loads no model.

--decide 2h goes on with further seeds of what undecided claims depend on, the claim that needs the
least time first, until each is decided, or cannot be with 16384 times the samples, or the time is
over. Started again it goes on from what is there, for as long again.`,
		Example: `  unmask reproduce
  unmask reproduce --samples 240 --out more
  unmask reproduce --decide 2h --out decided
  unmask reproduce --redraw --out decided
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
	flags.Int(cmd.Flags(), &f.samples, experiments.SamplesParam)
	flags.Duration(cmd.Flags(), &f.decide, "decide", 0,
		"then sample what is undecided for this `TIME` at most, such as 2h")
	cmd.Flags().BoolVar(&f.redraw, "redraw", false,
		"write the report again from the results in --out, of a run with the same flags")
	f.Hub.Register(cmd.Flags())
	cmd.Flags().StringVar(&f.out, "out", "reproduction", "write everything to this `DIR`")
	cmd.Flags().StringVar(&f.markdown, "markdown", "",
		"write the Markdown report to this `FILE` instead of DIR/report.md")
	return cmd
}

// chooseSize returns how much is measured, by the flags and by the model: published ones have
// longer sequences.
func (f *reproduceFlags) chooseSize(set *pflag.FlagSet) (experiments.Size, error) {
	s := experiments.DefaultSize
	switch {
	case f.full && f.quick:
		return s, usagef("--full and --quick together, want one of them")
	case f.full:
		s = experiments.FullSize
	case f.quick:
		s = experiments.QuickSize
	}
	if f.model != "demo" {
		s = s.ForPublished()
	}
	if set.Changed("samples") {
		return s.WithSamples(f.samples), nil
	}
	return s, nil
}

// checkFlags returns an error for flags that do not fit together.
func (f *reproduceFlags) checkFlags(set *pflag.FlagSet) error {
	switch {
	case f.model == "demo" && (f.Inception != "" || f.Reference != ""):
		return usagef("--inception and --reference are for a model of images, --model is demo")
	case catalog.IsExact(f.model):
		return usagef("--model is %s, want networks; unmask theory checks the paper on exact models",
			f.model)
	case set.Changed("decide") && f.decide <= 0:
		return usagef("--decide is %s, want a time above 0, such as 2h", f.decide)
	}
	return f.Hub.Check(set, nil, true, "")
}

// run measures what the journals lack, then what would decide further claims, and writes the
// report.
func (f *reproduceFlags) run(ctx context.Context, set *pflag.FlagSet) error {
	size, err := f.chooseSize(set)
	if err == nil {
		err = f.checkFlags(set)
	}
	if err != nil {
		return err
	}
	f.Scenes = size.Image.Scenes
	kinds := f.kinds()
	if err := experiments.CheckJournals(f.out, kinds...); err != nil {
		return err
	}
	if f.redraw {
		return f.redrawReport(set, size)
	}
	var results []experiments.Result
	var measurements []*measurement
	settings := experiments.Settings{}
	defer func() {
		for _, m := range measurements {
			m.journal.Close()
		}
	}()
	for i, kind := range kinds {
		f.KeepOpen(i+1 < len(kinds) || f.decide > 0) // workers wait for the next kind meanwhile
		m, err := f.openMeasurement(ctx, kind)
		if err != nil {
			return err
		}
		measurements = append(measurements, m)
		if err := m.measurePoints(ctx, size.Points(m.task.Kind), time.Time{}); err != nil {
			return err
		}
		maps.Copy(settings, m.settings.WithPrefix(m.task.Kind))
	}
	if f.decide > 0 {
		if err := f.decideClaims(ctx, measurements, size); err != nil {
			return err
		}
	}
	for _, m := range measurements {
		results = append(results, f.reportResults(m, size)...)
		if err := m.journal.Close(); err != nil {
			return err
		}
	}
	machine := fmt.Sprintf("%s, %s", processor.Name(), f.deviceName)
	return f.writeReport(results, settings, machine, size, set)
}

// redrawReport writes the report of the results that are there.
func (f *reproduceFlags) redrawReport(set *pflag.FlagSet, size experiments.Size) error {
	if f.Hub.Enabled() {
		return usagef("--redraw measures nothing, want it without --hub")
	}
	var results []experiments.Result
	settings := experiments.Settings{}
	for _, kind := range append([]string{"image", "text"}, exactKinds()...) {
		name := experiments.JournalName(f.out, kind)
		recorded, journal, dropped, err := experiments.ReadJournal(name)
		isNeeded := f.model == "demo" && (kind == "image" || kind == "text")
		if errors.Is(err, fs.ErrNotExist) && !isNeeded { // a published model is of one kind
			continue
		}
		if err != nil {
			return err
		}
		logDropped(name, dropped)
		if missing := size.CountMissing(kind, journal); missing > 0 {
			return fmt.Errorf("%s: %s of this size missing, want --quick, --full and --samples as they "+
				"were measured, or no --redraw", name, terminal.FormatCount(missing, "result"))
		}
		results = append(results, size.SelectResults(kind, journal)...)
		maps.Copy(settings, recorded.WithPrefix(kind))
	}
	if len(results) == 0 {
		return fmt.Errorf("%s has no results, want those of unmask reproduce", f.out)
	}
	return f.writeReport(results, settings, "", size, set)
}

// writeReport writes the report.
func (f *reproduceFlags) writeReport(results []experiments.Result, settings experiments.Settings,
	machine string, size experiments.Size, set *pflag.FlagSet) error {
	report := experiments.NewReport(results, size)
	report.Settings = settings
	report.Machine = machine
	report.Demo = f.model == "demo"
	report.Command = flags.CommandLine("unmask reproduce", set,
		append(share.FlagNames(), "out", "markdown", "redraw")...)
	names, err := report.Write(f.out, f.markdown)
	if err != nil {
		return err
	}
	terminal.Logf("report: %s", strings.Join(names, ", "))
	return writeStdout(report.Summary())
}

// kinds returns the kinds of models to measure: "" is that of the model.
func (f *reproduceFlags) kinds() []string {
	if f.model != "demo" {
		return []string{""}
	}
	return append(exactKinds(), "image", "text")
}

// exactKinds returns the kinds of the exact laws.
func exactKinds() (kinds []string) {
	for _, law := range experiments.ExactLaws {
		kinds = append(kinds, law.Kind)
	}
	return kinds
}

// openMeasurement loads the model of a kind, and its journal.
func (f *reproduceFlags) openMeasurement(ctx context.Context, kind string) (*measurement, error) {
	m, err := f.loadMeasurement(ctx, kind)
	if err == nil && f.out == "-" {
		err = usagef("--out is -, want a folder's name")
	}
	if err == nil {
		err = os.MkdirAll(f.out, 0o777)
	}
	if err == nil {
		err = m.openJournal(experiments.JournalName(f.out, m.task.Kind))
	}
	return m, err
}

// loadMeasurement loads the model of a kind.
func (f *reproduceFlags) loadMeasurement(ctx context.Context, kind string) (*measurement, error) {
	i := slices.Index(exactKinds(), kind)
	if i < 0 {
		return f.newMeasurement(ctx, kind, f.taskFlags, &f.Hub)
	}
	law := experiments.ExactLaws[i]
	exact := f.deviceFlags
	exact.model = law.Model
	judge := taskFlags{}
	judge.Judge = law.Model
	m, err := exact.newMeasurement(ctx, "text", judge, &share.Hub{}) // too cheap to share
	m.task.Kind = law.Kind
	return m, err
}

// reportResults returns the results that the report is of.
func (f *reproduceFlags) reportResults(m *measurement, size experiments.Size) []experiments.Result {
	kind := m.task.Kind
	if f.decide > 0 {
		return size.SelectResults(kind, m.journal.Results)
	}
	return m.journal.Select(kind, size.Points(kind))
}

// decideClaims measures further seeds for undecided claims, the claim that needs the least time
// first, until all are decided, none can be, or the time of --decide is over.
func (f *reproduceFlags) decideClaims(ctx context.Context, measurements []*measurement,
	size experiments.Size) error {
	until := time.Now().Add(f.decide)
	limited, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		var results []experiments.Result
		for _, m := range measurements {
			results = append(results, f.reportResults(m, size)...)
		}
		next, ok := experiments.ChooseFollowup(results, size)
		if !ok {
			terminal.Logf("no undecided claim is left that more samples would decide")
			return f.Hub.Close()
		}
		left := time.Until(until)
		if left <= 0 {
			terminal.Logf("the time of --decide is over: run the same command again to continue")
			return f.Hub.Close()
		}
		terminal.Logf("undecided: %s: %s, about %s of generation, %s left", next.Claim,
			terminal.FormatCount(len(next.Points), "point"),
			time.Duration(next.Cost*float64(time.Second)).Round(time.Second), left.Round(time.Second))
		i := slices.IndexFunc(measurements, func(m *measurement) bool { return m.task.Kind == next.Kind })
		err := measurements[i].measurePoints(limited, next.Points, until)
		if errors.Is(err, context.DeadlineExceeded) {
			continue // the loop says so
		}
		if err != nil {
			return err
		}
	}
}
