package cli

import (
	"context"
	"maps"
	"slices"

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
		inputs, err := readInputs(c.prompts)
		if err != nil {
			return usage("--prompts: %v", err)
		}
		for i, in := range inputs {
			text, err := in.Drawn(m.Spec().Classes > 0)
			if err != nil {
				return usage("--prompts: input %d: %v", i, err)
			}
			s.Lines = append(s.Lines, text)
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

// choosePreset makes --preset the run that the model was published with. Without one, inpainting is
// the model's own where it has one.
func (c *conditionFlags) choosePreset(m *unmask.Model, inpaints bool) error {
	if c.preset == "" {
		if recipe, ok := m.Presets["inpaint"]; ok && inpaints {
			m.Recipe = recipe
		}
		return nil
	}
	recipe, ok := m.Presets[c.preset]
	switch names := slices.Sorted(maps.Keys(m.Presets)); {
	case ok:
		m.Recipe = recipe
	case len(names) == 0:
		return usage("--preset is %s, want none: the model has no presets", param.Quote(c.preset))
	default:
		return usage("--preset is %s, want %s", param.Quote(c.preset), param.Either(names))
	}
	return nil
}
