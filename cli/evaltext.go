package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/research/judges"
	"unmask/research/metrics"
)

// evalTextFlags are the flags of unmask eval text.
type evalTextFlags struct {
	deviceFlags
	name string // of the judge
	mdlm bool
	json bool

	stories bool
}

func newEvalText() *cobra.Command {
	var f evalTextFlags
	cmd := &cobra.Command{
		Use:   "text FILE.jsonl|-",
		Short: "Measure text: the lines of unmask text --json",
		Args:  exactly(1, "a FILE.jsonl of unmask text --json, or - for standard input"),
		Example: `  unmask text -n 64 --json | unmask eval text -
  unmask text -n 64 --json --out samples.jsonl && unmask eval text samples.jsonl
  unmask eval text samples.jsonl --judge openai-community/gpt2-large`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args[0]) },
	}
	f.registerCompute(cmd.Flags())
	cmd.Flags().StringVar(&f.name, "judge", demoText,
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

func (f *evalTextFlags) run(ctx context.Context, name string) error {
	o, err := f.deviceFlags.judge(nil)
	if err != nil {
		return err
	}
	in, err := flags.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	judge, err := judges.LoadText(ctx, judgeName(f.name, ""), o)
	if errors.Is(err, unmask.ErrName) {
		return usage("%v", wrap("--judge", errors.Unwrap(err)))
	} else if err != nil {
		return err
	}
	var as *metrics.Retokenize
	if f.mdlm {
		if as, err = judge.Retokenize(); err != nil {
			return usage("%v", wrap("--mdlm", err))
		}
	}
	p := terminal.NewProgress("samples", -1)
	e, err := judges.EvalText(ctx, judge, as, f.stories, in,
		func(judged int) { p.Set(int64(judged)) })
	p.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return show(e, f.json)
}
