package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/generate"
	"unmask/model"
	"unmask/terminal"
	"unmask/traces"
)

// textFlags are those of unmask text.
type textFlags struct {
	deviceFlags
	samplingFlags
	constraintFlags
	chat           chatFlags
	length         int
	prompt, infill string
	tokensIn       string
	watch, json    bool
	out, trace     string
}

func newText() *cobra.Command {
	var f textFlags
	cmd := &cobra.Command{
		Use:   "text",
		Short: "Generate text",
		Args:  noArgs,
		Example: `  unmask text                                  a sample of the embedded model
  unmask text --infill "To be, [20] that is the question"
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
	cmd.Flags().StringVar(&f.tokensIn, "tokens-in", "",
		"token ids that every sample begins with: a safetensors `FILE` with tokens I64, or FILE:TENSOR")
	f.chat.register(cmd.Flags())
	cmd.Flags().BoolVar(&f.watch, "watch", false, "redraw the text in the terminal as positions open")
	cmd.Flags().BoolVar(&f.json, "json", false,
		"one JSON object a line and sample: id, seed, ids, text, opened_at, logprobs, steps, seconds, "+
			"evaluated")
	cmd.Flags().StringVar(&f.trace, "trace", "",
		"write what opened when, with which probability, to this new `FILE` for unmask replay")
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
	if err := f.checkTokensIn(); err != nil {
		return usage("%v", err)
	}
	if f.watch && !terminal.Draws(os.Stderr) {
		return usage("--watch needs a terminal on standard error")
	}
	out, err := openTextOutput(f)
	if err != nil {
		return err
	}
	err = f.runTo(ctx, cmd, out, o)
	return ended(err, out.close(err))
}

// runTo makes the samples.
func (f *textFlags) runTo(ctx context.Context, cmd *cobra.Command, out *textOutput,
	o generate.Options) error {
	m, err := f.loadText(ctx)
	if err != nil {
		return err
	}
	if o, err = f.published(cmd.Flags(), m, o); err != nil {
		return err
	}
	if o.Tokens, err = f.tokens(m); err != nil {
		return err
	}
	if err := f.constrain(m, &o); err != nil {
		return err
	}
	f.fitSteps(cmd.Flags(), &o, holes(o.Tokens, m.Spec().Mask))
	if o, err = m.Check(o); err != nil {
		return usage("%v", err)
	}
	if o, err = out.begin(f, m, o); err != nil {
		return err
	}
	if o.N == 0 { // all are there
		return nil
	}
	trace, err := openTrace(f.trace, f.model, m, o)
	if err != nil {
		return err
	}
	err = f.generate(ctx, m, o, out, trace)
	return ended(err, trace.close(err))
}

// generate runs the loop and hands each finished sample to out, in order.
func (f *textFlags) generate(ctx context.Context, m *unmask.Model, o generate.Options,
	out *textOutput, trace *tracing) error {
	var w *terminal.Watcher
	p := terminal.NewProgress("steps", int64(o.Steps)*int64((o.N+o.Batch-1)/o.Batch))
	if f.watch {
		w = terminal.NewWatcher(m, os.Stderr)
	}
	defer p.Close()
	done := map[int]bool{}
	var openings traces.Openings
	var seconds float64
	for step, err := range interruptible(ctx, generate.Run(ctx, m.Denoiser, o)) {
		if err == errInterrupted {
			p.Close()
			return out.interrupted(step, m, o.Seed, f.chat.from, &openings)
		}
		if err != nil {
			return err
		}
		if step.N <= 1 {
			seconds = 0
		}
		seconds += step.Seconds
		openings.Add(step)
		if err := trace.write(step); err != nil {
			return err
		}
		if w != nil {
			w.Draw(step)
		} else {
			p.Add(1)
		}
		for i := range step.Sequences {
			s := &step.Sequences[i]
			if !s.Done || done[s.Index] {
				continue
			}
			done[s.Index] = true
			if w != nil {
				w.Clear()
			}
			if err := out.write(sample{m: m, s: s, shown: f.text(s.Tokens), seed: o.Seed, steps: step.N,
				seconds: seconds, opening: openings.Take(s.Index)}); err != nil {
				return err
			}
		}
		if step.Done {
			clear(done)
		}
	}
	return nil
}

// text returns the part of a finished sample that is shown.
func (f *textFlags) text(tokens []int32) []int32 {
	if f.chat.model != nil {
		return f.chat.shown(tokens)
	}
	return f.shown(tokens)
}

// tokens returns what is known from the start: all masks, a prompt, or a text with holes.
func (f *textFlags) tokens(m *unmask.Model) ([]int32, error) {
	if f.chat.asked() {
		return f.chat.tokens(m, f.length)
	}
	if f.tokensIn != "" {
		return tokensIn(m, f.tokensIn, f.length)
	}
	tokens, err := m.Text.Masks(f.length)
	if err != nil {
		return nil, usage("--length: %v", err)
	}
	if f.prompt != "" {
		if tokens, err = m.Text.Prompt(f.prompt, f.length); err != nil {
			return nil, usage("--prompt: %v", err)
		}
	}
	if f.infill != "" {
		if tokens, err = m.Text.Infill(f.infill, f.length); err != nil {
			return nil, usage("--infill: %v", err)
		}
	}
	return tokens, nil
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
