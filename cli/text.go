package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/share"
	"unmask/cli/terminal"
	"unmask/generate"
	"unmask/model"
	"unmask/runs"
	"unmask/runs/outputs"
)

// textFlags are those of unmask text.
type textFlags struct {
	deviceFlags
	samplingFlags
	flags.Text
	share.Shard
	share.Hub
	followFlags
	json   bool
	out    string
	preset string
}

// newText returns the command unmask text.
func newText() *cobra.Command { return new(textFlags).command() }

// command returns the command with these flags.
func (f *textFlags) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "text [PROMPT]",
		Short: "Generate text",
		Args:  textArg("prompt"),
		Example: `  unmask text                                  a sample of the embedded model
  unmask text "Once upon a time"               the same as --prompt
  echo "Once upon a time" | unmask text        the same again
  unmask text --infill "Once upon a time there[3] girl named Lily."
  unmask text --prompts prompts.jsonl --json --out samples.jsonl
  unmask text --model org/name --chat "What is the capital of France?"
  unmask text --sampler moment --alpha 3 --steps 16 -n 4 --json
  unmask text --model jdeschena/sdtt@baselines_kld_step_70000
  unmask text --model oracle:markov:length=32,tokens=4 --sampler "eb(margin)"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := setTextFlag(cmd, "prompt", args); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd)
		},
	}
	f.deviceFlags.register(cmd.Flags(), "demo")
	f.samplingFlags.register(cmd.Flags(), model.Spec{Shape: []int{1}})
	f.Text.Register(cmd.Flags())
	f.Shard.Register(cmd.Flags())
	f.Hub.Register(cmd.Flags())
	f.followFlags.register(cmd.Flags(), "the text's positions")
	cmd.Flags().StringVar(&f.preset, "preset", "",
		"`NAME` of a published run of the model, such as ar or diffusion; see docs/models.md")
	cmd.Flags().BoolVar(&f.json, "json", false,
		"one JSON object per sample and line: id, seed, ids, text, opened_at, logprobs, steps, seconds, "+
			"evaluated")
	cmd.Flags().StringVar(&f.out, "out", "",
		"write to this `FILE`, which appears when it is complete; a .fasta, .fa or .faa is FASTA; a "+
			".jsonl has the lines of --json without their seconds, grows line by line, and the same "+
			"command continues it after an interruption")
	return cmd
}

// run opens the output of the samples, makes them and closes it, also after an error: what is
// finished stays.
func (f *textFlags) run(ctx context.Context, cmd *cobra.Command) error {
	overrides, err := f.readOverrides(cmd.Flags())
	if err != nil {
		return err
	}
	if err := f.Text.Check(ctx, cmd.Flags()); err != nil {
		return err
	}
	if err := f.Text.ReadPiped(ctx, cmd.Flags()); err != nil {
		return err
	}
	if f.Inputs != nil && !cmd.Flags().Changed("n") {
		f.n = len(f.Inputs)
	}
	lines := strings.HasSuffix(f.out, ".jsonl")
	want := "--out FILE.jsonl"
	if err := f.followFlags.checkFlags(); err != nil {
		return err
	}
	if err := f.Shard.Check(lines, want); err != nil {
		return err
	}
	if err := f.Hub.Check(cmd.Flags(), &f.Shard, lines, want); err != nil {
		return err
	}
	stdoutOrPipe := io.Writer(stdout)
	if !f.json {
		stdoutOrPipe = wrappingWriter{}
	}
	if f.Trace != "" {
		stdoutOrPipe = pipeTolerant{stdoutOrPipe}
	}
	out, err := outputs.NewTexts(outputs.TextOptions{
		To:      stdoutOrPipe,
		Name:    f.out,
		JSON:    f.json,
		Numbers: f.n > 1 || f.Inputs != nil,
		Shard:   f.Shard.Shard,
		Say:     terminal.Log,
	})
	if err != nil {
		return wrapError("--out", err)
	}
	err = f.generateTexts(ctx, cmd, overrides, out)
	err = outputs.RunError(err, wrapError("--out", out.Close(err)))
	if err == nil && f.Inputs == nil { // inputs may have seeds of their own
		noteSeed(cmd.Flags())
	}
	if f.out == "" {
		return err
	}
	return printWritten(err, f.out)
}

// generateTexts makes the samples.
func (f *textFlags) generateTexts(ctx context.Context, cmd *cobra.Command,
	overrides generate.Overrides, out *outputs.Texts) error {
	if cmd.Flags().Changed("chat") || cmd.Flags().Changed("messages") {
		if f.model == demoText && cmd.Flags().Changed("model") {
			terminal.Logf("note: demo has no chat template: %s answers", demoChat)
		}
		f.replaceDemo(demoChat)
	}
	m, err := f.loadText(ctx)
	if err != nil {
		return err
	}
	r, err := f.buildRequest(m, overrides)
	if err != nil {
		return err
	}
	j, err := outputs.Prepare(ctx, m, r, f.Inputs, f.n, f.batch)
	if err != nil {
		return f.NameFlag(err)
	}
	logNotes(j.Requests.TemplateNote())
	logNotes(j.Requests.SamplerNotes()...)
	var s runs.Settings
	if strings.HasSuffix(f.out, ".jsonl") { // the only output that they are for
		s, err = j.Settings(f.precision)
		if err != nil {
			return wrapError("model "+f.model, err)
		}
	}
	if f.Hub.Enabled() {
		spec := share.Spec{
			Kind:      share.KindText,
			Model:     f.model,
			As:        f.as,
			Precision: f.precision,
			Request:   &r,
			Inputs:    f.Inputs,
		}
		return f.Hub.MakeOutputs(ctx, spec, f.out, f.n, share.BuildOutputs(spec.Kind, s, j))
	}
	missing, err := out.Begin(j, s)
	if err != nil {
		return wrapError("--out", err)
	}
	if outputs.CountSamples(missing) == 0 { // all are there
		return nil
	}
	return f.makeSamples(ctx, &f.deviceFlags, j, missing, out, outputs.Hooks{})
}

// buildRequest returns the request of the flags.
func (f *textFlags) buildRequest(m *unmask.Model,
	overrides generate.Overrides) (r unmask.Request, err error) {
	r, err = f.Request(m, overrides)
	r.Seed = f.seed
	r.Preset = f.preset
	return r, err
}

// logNotes says notes but those that are "".
func logNotes(notes ...string) {
	for _, note := range notes {
		if note != "" {
			terminal.Logf("note: %s", note)
		}
	}
}
