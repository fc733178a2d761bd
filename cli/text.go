package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/export"
	"unmask/generate"
	"unmask/model"
	"unmask/outputs"
	"unmask/runs"
	"unmask/terminal"
)

// textFlags are those of unmask text.
type textFlags struct {
	deviceFlags
	samplingFlags
	constraintFlags
	shardFlags
	chat           chatFlags
	length         int
	prompt, infill string
	prompts        string
	inputs         []unmask.Input // of prompts
	tokensIn       string
	json           bool
	out            string
	followFlags
}

func newText() *cobra.Command {
	var f textFlags
	cmd := &cobra.Command{
		Use:   "text",
		Short: "Generate text",
		Args:  noArgs,
		Example: `  unmask text                                  a sample of the embedded model
  unmask text --infill "To be, [20] that is the question"
  unmask text --prompts prompts.jsonl --json --out samples.jsonl
  unmask text --model org/name --chat "What is the capital of France?"
  unmask text --sampler moment --alpha 3 --steps 16 -n 4 --json
  unmask text --model jdeschena/sdtt@baselines_kld_step_70000
  unmask text --model oracle:markov:length=32,tokens=4 --sampler "eb(margin)"`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd)
		},
	}
	f.deviceFlags.register(cmd.Flags(), "demo")
	f.constraintFlags.register(cmd.Flags())
	f.samplingFlags.register(cmd.Flags(), model.Spec{Shape: []int{1}})
	lengthFlag(cmd.Flags(), &f.length)
	cmd.Flags().StringVar(&f.prompt, "prompt", "",
		"text that every sample begins with; - reads it from standard input")
	cmd.Flags().StringVar(&f.infill, "infill", "",
		`text with holes of so many tokens, such as "To be, [20] that is the question"`)
	cmd.Flags().StringVar(&f.prompts, "prompts", "",
		"`FILE` of prompts, one a line, or JSONL of objects with prompt or infill, and seed; - reads "+
			"standard input; sample i is of line i, and begins again after the last")
	cmd.Flags().StringVar(&f.tokensIn, "tokens-in", "",
		"token ids that every sample begins with: a safetensors `FILE` with tokens I64, or FILE:TENSOR")
	f.shardFlags.register(cmd.Flags())
	f.chat.register(cmd.Flags())
	f.followFlags.register(cmd.Flags(), "the text's positions")
	cmd.Flags().BoolVar(&f.json, "json", false,
		"one JSON object a line and sample: id, seed, ids, text, opened_at, logprobs, steps, seconds, "+
			"evaluated")
	cmd.Flags().StringVar(&f.out, "out", "",
		"write to this `FILE`, which appears when all is written; a .jsonl has the lines of --json "+
			"without their seconds, one at a time, and the same command continues it where it was broken off")
	return cmd
}

func (f *textFlags) run(ctx context.Context, cmd *cobra.Command) error {
	o, err := f.generation(cmd.Flags())
	if err != nil {
		return err
	}
	if flags := cmd.Flags(); flags.Changed("end") && f.minLength == 0 && !f.cut {
		return usage("--end is %q, want it with --min-length or --cut", f.end)
	}
	for _, text := range []*string{&f.prompt, &f.infill} {
		if *text == "-" {
			if *text, err = readInput(); err != nil {
				return err
			}
		}
	}
	if f.prompt != "" && f.infill != "" {
		return usage("--prompt and --infill together, want one of them")
	}
	if err := f.chat.check(f); err != nil {
		return err
	}
	if f.tokensIn != "" && (f.prompt != "" || f.infill != "" || f.chat.asked()) {
		return usage("--tokens-in with another prompt, want one of them")
	}
	if err := f.readPrompts(cmd.Flags()); err != nil {
		return err
	}
	if err := f.followFlags.check(); err != nil {
		return err
	}
	if err := f.shardFlags.check(strings.HasSuffix(f.out, ".jsonl"), "--out FILE.jsonl"); err != nil {
		return err
	}
	out, err := outputs.NewTexts(outputs.TextOptions{To: stdout, Name: f.out, JSON: f.json,
		Numbers: f.n > 1 || f.inputs != nil, Shown: f.shown, Shard: f.shard, Say: terminal.Line})
	if err != nil {
		return wrap("--out", err)
	}
	err = f.runTo(ctx, cmd, out, o)
	return ended(err, wrap("--out", out.Close(err)))
}

// runTo makes the samples.
func (f *textFlags) runTo(ctx context.Context, cmd *cobra.Command, out *outputs.Texts,
	o generate.Options) error {
	m, err := f.loadText(ctx)
	if err != nil {
		return err
	}
	if o, err = f.published(cmd.Flags(), m, o); err != nil {
		return err
	}
	if f.inputs != nil {
		return f.makeEach(ctx, cmd.Flags(), m, out, o)
	}
	if o.Tokens, err = f.tokens(m); err != nil {
		return err
	}
	if f.chat.model != nil {
		o.Ends = f.chat.model.Stops()
	}
	if err := f.constrain(m, &o); err != nil {
		return err
	}
	f.fitSteps(cmd.Flags(), &o, holes(o.Tokens, m.Spec().Mask))
	if o, err = m.Check(o); err != nil {
		return usage("%v", err)
	}
	s, err := f.settings(m, o)
	if err != nil {
		return err
	}
	if o, err = out.Begin(m, o, s); err != nil {
		return wrap("--out", err)
	}
	if o.N == 0 { // all are there
		return nil
	}
	return f.make(ctx, &f.deviceFlags, m, o, []unmask.Run{o}, out, outputs.Hooks{})
}

// settings returns what the bytes of --out depend on.
func (f *textFlags) settings(m *unmask.Model, o generate.Options) (runs.Settings, error) {
	s, err := outputs.Settings(m, f.precision, o)
	if err != nil {
		return nil, wrap("model "+f.model, err)
	}
	if f.chat.asked() {
		s["text"] = "answer"
	}
	if f.minLength > 0 || f.cut {
		s["end"], s["min-length"], s["cut"] = f.end, strconv.Itoa(f.minLength), strconv.FormatBool(f.cut)
	}
	return s, nil
}

// shown returns the tokens of a sample that are shown.
func (f *textFlags) shown(s outputs.Sample) []int32 {
	switch {
	case s.Unfinished:
		return s.Tokens[f.chat.from:]
	case f.chat.model != nil:
		return f.chat.shown(s.Tokens)
	}
	return f.constraintFlags.shown(s)
}

// tokens returns what is known from the start: all masks, a prompt, or a text with holes.
func (f *textFlags) tokens(m *unmask.Model) ([]int32, error) {
	if f.chat.asked() {
		return f.chat.tokens(m, f.length)
	}
	if f.tokensIn != "" {
		tokens, err := export.Prompt(m, f.tokensIn, f.length)
		if err != nil {
			return nil, usage("--tokens-in: %v", err)
		}
		return tokens, nil
	}
	tokens, err := m.Text.Known(unmask.Input{Prompt: f.prompt, Infill: f.infill}, f.length)
	switch {
	case err == nil:
		return tokens, nil
	case f.prompt != "":
		return nil, usage("--prompt: %v", err)
	case f.infill != "":
		return nil, usage("--infill: %v", err)
	}
	return nil, usage("--length: %v", err)
}

func holes(tokens []int32, mask int32) int {
	n := 0
	for _, t := range tokens {
		if t == mask {
			n++
		}
	}
	return n
}
