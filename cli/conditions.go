package cli

import (
	"context"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/generate"
	"unmask/param"
	"unmask/terminal"
)

// conditionFlags say what images are drawn of.
type conditionFlags struct {
	class, prompt    []string
	prompts          string
	negative, preset string
	subjects         *unmask.Conditions
}

func (c *conditionFlags) register(f *pflag.FlagSet) {
	f.StringArrayVar(&c.class, "class", nil,
		"`CLASS` to draw, a number or a name such as \"golden retriever\"; may be repeated")
	f.StringArrayVar(&c.prompt, "prompt", nil, "`TEXT` to draw; may be repeated")
	f.StringVar(&c.prompts, "prompts", "", "`FILE` of prompts or classes, one a line, or JSONL of objects with prompt or class; "+
		"- reads standard input")
	f.StringVar(&c.negative, "negative", "",
		"`TEXT` that guidance leads away from, in place of the empty prompt")
	f.StringVar(&c.preset, "preset", "",
		"`NAME` of a published run of the model: fid is its authors' evaluation")
}

// conditions reads what was asked for and sets the run's conditions.
func (c *conditionFlags) conditions(ctx context.Context, m *unmask.Model,
	o *generate.Options) error {
	s := unmask.Subjects{Classes: c.class, Prompts: c.prompt, Negative: c.negative}
	var err error
	if c.prompts != "" {
		if s.Inputs, err = readInputs(c.prompts); err != nil {
			return usage("--prompts: %v", err)
		}
	}
	ctx, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	if c.subjects, err = m.Conditions(ctx, s, o.Guidance.Scale != 0); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return usage("--%v", err)
	}
	if c.subjects == nil {
		return nil
	}
	for _, text := range c.subjects.Cut {
		terminal.Say("prompt %s is longer than what the model reads: its end is left out",
			param.Quote(text))
	}
	o.Conditions = c.subjects.Of
	return nil
}
