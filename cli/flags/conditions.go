package flags

import (
	"context"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/cli/terminal"
	"unmask/param"
)

// Conditions are the flags for classes, prompts and the preset of a picture's run.
type Conditions struct {
	Preset string
	// of --prompts, set by Read, or set by the caller if Read is called without the flag
	Inputs []unmask.Input
	Of     *unmask.Conditions // after Read; nil for none

	class, prompt     []string
	prompts, negative string
}

// Register adds the flags.
func (c *Conditions) Register(f *pflag.FlagSet) {
	f.StringArrayVar(&c.class, "class", nil,
		"`CLASS` to draw, a number or a name such as \"golden retriever\"; may be repeated")
	f.StringArrayVar(&c.prompt, "prompt", nil, "`TEXT` to draw; may be repeated")
	f.StringVar(&c.prompts, "prompts", "", "`FILE` of prompts or classes, one a line, or JSONL of "+
		"objects with prompt or class; - reads standard input")
	f.StringVar(&c.negative, "negative", "",
		"`TEXT` that guidance moves away from, instead of the empty prompt")
	f.StringVar(&c.Preset, "preset", "",
		"`NAME` of a published run of the model: fid is its authors' evaluation")
}

// Read reads the flags, encodes prompts, and sets the run's conditions.
func (c *Conditions) Read(ctx context.Context, m *unmask.Model, r *unmask.Run) error {
	var err error
	if c.prompts != "" {
		if c.Inputs, err = readInputs(c.prompts); err != nil {
			return Wrap("--prompts", err)
		}
	}
	s := unmask.Subjects{Classes: c.class, Prompts: c.prompt, Inputs: c.Inputs, Negative: c.negative}
	ctx, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	if c.Of, err = m.Conditions(ctx, s, r.Guidance.Scale != 0); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return Usage("--%v", err)
	}
	if c.Of == nil {
		return nil
	}
	for _, text := range c.Of.Cut {
		terminal.Say("prompt %s is longer than what the model reads: its end is left out",
			param.Quote(text))
	}
	r.Conditions = c.Of.Of
	return nil
}
