package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"unmask/catalog"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/research/experiments"
	"unmask/research/judges"
	"unmask/research/metrics"
)

// newEval returns the command unmask eval, which only has subcommands.
func newEval() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure samples and samplers: by a judge, a reference, the truth",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEvalText(), newEvalImage(), newEvalExactness(), newEvalTasks(),
		newEvalDecisions())
	return cmd
}

// printJSONLines prints values as JSON, one a line.
func printJSONLines[T any](list []T) error {
	lines := json.NewEncoder(stdout)
	for _, v := range list {
		if err := lines.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// evalTextFlags are the flags of unmask eval text.
type evalTextFlags struct {
	deviceFlags
	judge string // of the judge
	mdlm  bool
	json  bool

	stories bool
}

// newEvalText returns the command unmask eval text.
func newEvalText() *cobra.Command {
	var f evalTextFlags
	cmd := &cobra.Command{
		Use:   "text FILE.jsonl|-",
		Short: "Measure text: the lines of unmask text --json",
		Args:  exactArgs(1, "a FILE.jsonl of unmask text --json, or - for standard input"),
		Example: `  unmask text -n 64 --json | unmask eval text -
  unmask text -n 64 --json --out samples.jsonl && unmask eval text samples.jsonl
  unmask eval text samples.jsonl --judge openai-community/gpt2-large`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args[0]) },
	}
	f.registerCompute(cmd.Flags())
	cmd.Flags().StringVar(&f.judge, "judge", demoText,
		"a GPT-2 `MODEL`: demo (embedded), a directory, or org/name[@revision] on the hub; or an exact "+
			"one such as oracle:markov:length=16,tokens=4")
	cmd.Flags().BoolVar(&f.mdlm, "mdlm", false,
		"perplexity as MDLM's code has it: text in GPT-2's own tokens, the mean over tokens; otherwise "+
			"as SDTT's, raw ids, the mean over samples")
	cmd.Flags().BoolVar(&f.stories, "stories", false,
		"count a story's contradictions and slips: of texts of a model of demo/recipe/stories.py")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object: samples, metrics")
	return cmd
}

// run measures the samples of a file and prints their metrics.
func (f *evalTextFlags) run(ctx context.Context, name string) error {
	o, err := f.deviceFlags.judgeOptions(nil)
	if err != nil {
		return err
	}
	in, err := flags.OpenInput(name)
	if err != nil {
		return err
	}
	defer in.Close()
	judge, err := judges.LoadTextJudge(ctx, judgeName(f.judge, ""), o)
	if errors.Is(err, catalog.ErrName) {
		return usagef("%v", wrapError("--judge", errors.Unwrap(err)))
	} else if err != nil {
		return err
	}
	var retokenizer *metrics.Retokenizer
	if f.mdlm {
		retokenizer, err = judge.Retokenizer()
		if err != nil {
			return usagef("%v", wrapError("--mdlm", err))
		}
	}
	p := terminal.NewProgress("samples", -1)
	e, err := judges.EvalText(ctx, judge, retokenizer, f.stories, in,
		func(judged int) { p.Set(int64(judged)) })
	p.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return printValue(e, f.json)
}

// evalImageFlags are the flags of unmask eval image.
type evalImageFlags struct {
	deviceFlags
	measure   judges.Measure
	saveStats string
	perClass  bool
	json      bool
}

// newEvalImage returns the command unmask eval image.
func newEvalImage() *cobra.Command {
	var f evalImageFlags
	cmd := &cobra.Command{
		Use:   "image DIR",
		Short: "Measure the PNG and JPEG files of a directory against a reference",
		Args:  exactArgs(1, "a DIR of PNG or JPEG files"),
		Example: `  unmask eval image samples --reference imagenet-val --inception pt_inception-2015-12-05-6726825d.pth
  unmask eval image imagenet-val --inception FILE --save-stats imagenet.npz
  unmask eval image samples --reference imagenet.npz --inception FILE
  unmask eval image nights-and-days --per-class`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0])
		},
	}
	f.deviceFlags.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&f.measure.Reference, "reference", "",
		"compare with this `DIR` of PNG or JPEG files, or the mu and sigma of this .npz; with --model "+
			"demo its landscapes where none is given")
	cmd.Flags().StringVar(&f.measure.Inception, "inception", "",
		"weights of Inception-v3, a `FILE` or directory, for FID and Inception Score; without, the "+
			"features of --model's VQGAN")
	cmd.Flags().StringVar(&f.saveStats, "save-stats", "",
		"write mu and sigma of DIR's features to this `FILE`.npz")
	cmd.Flags().BoolVar(&f.perClass, "per-class", false,
		"also compare each class with its own pictures of the reference; a picture's class is its "+
			"folder's name or, outside folders, the class in its texts")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object: samples, metrics, classes")
	return cmd
}

// run measures the pictures of a directory. It notes when they are too few for the Frechet
// distance, which grows as samples get fewer than features.
func (f *evalImageFlags) run(ctx context.Context, dir string) error {
	if err := checkFile("--save-stats", f.saveStats); err != nil {
		return usagef("%v", err)
	}
	o := judges.FolderOptions{
		Reference: f.measure.Reference != "" || f.saveStats == "",
		PerClass:  f.perClass,
		Stats:     f.saveStats,
	}
	if o.Reference && f.measure.Reference == "" && (f.measure.Inception != "" || !isDemo(f.model)) {
		return usagef("--reference is missing, want a DIR of images or an .npz, or --save-stats")
	}
	network, err := f.network(ctx)
	if err != nil {
		return err
	}
	reference := terminal.LazyProgress{Label: "reference"}
	defer reference.Close()
	f.measure.Progress = reference.Set
	var p *terminal.Progress
	o.Begin = func(n int) { reference.Close(); p = terminal.NewProgress("images", int64(n)) }
	o.Each = func() { p.Add(1) }
	e, err := judges.EvalFolder(ctx, dir, network, f.measure, o)
	p.Close()
	if err != nil {
		return err
	}
	if f.saveStats != "" {
		terminal.Logf("statistics of %s", terminal.FormatCount(e.Samples, "image"))
		if !o.Reference {
			return printWritten(nil, f.saveStats)
		}
		terminal.Log(f.saveStats)
	}
	// A covariance of W features needs many more samples than W to have full rank by more than luck.
	if enough := 10 * network.Width(); e.Samples < enough {
		terminal.Logf("%s of %d features each: the Frechet distance of so few is biased upwards, compare "+
			"it with that of as many alone, or measure %d", terminal.FormatCount(e.Samples, "image"),
			network.Width(), enough)
	}
	return printValue(e, f.json)
}

// network returns Inception-v3 or, without --inception, the codec of --model.
func (f *evalImageFlags) network(ctx context.Context) (experiments.Network, error) {
	if f.measure.Inception != "" {
		o, err := f.judgeOptions(nil)
		if err != nil {
			return nil, err
		}
		return judges.LoadInception(f.measure.Inception, o)
	}
	codec, err := f.loadCodec(ctx)
	if err != nil {
		return nil, err
	}
	return judges.FeatureNetwork(codec)
}
