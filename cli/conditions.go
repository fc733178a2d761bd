package cli

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/generate"
	"unmask/images"
	"unmask/model"
	"unmask/param"
	"unmask/runs"
	"unmask/terminal"
)

// conditionFlags say what images are drawn of.
type conditionFlags struct {
	class, prompt    []string
	prompts          string
	negative, preset string
	list             []*model.Condition // in turn, of the images; nil: none
	texts            []string           // as they were asked for
	recipe           string             // for labels
	labelSeed        uint64
	ofClasses        bool
}

// maxLines bounds the lines of --prompts.
const maxLines = 1 << 20

func (c *conditionFlags) register(f *pflag.FlagSet) {
	f.StringArrayVar(&c.class, "class", nil,
		"`CLASS` to draw, a number or a name such as \"golden retriever\"; may be repeated")
	f.StringArrayVar(&c.prompt, "prompt", nil, "`TEXT` to draw; may be repeated")
	f.StringVar(&c.prompts, "prompts", "", "`FILE` of prompts or classes, one a line")
	f.StringVar(&c.negative, "negative", "",
		"`TEXT` that guidance leads away from, in place of the empty prompt")
	f.StringVar(&c.preset, "preset", "",
		"`NAME` of a published run of the model: fid is its authors' evaluation")
}

// conditions reads what was asked for and sets the run's conditions.
func (c *conditionFlags) conditions(ctx context.Context, m *unmask.Model,
	o *generate.Options) error {
	spec := m.Spec()
	c.texts, c.ofClasses = append(append([]string(nil), c.class...), c.prompt...), spec.Classes > 0
	if c.prompts != "" {
		lines, err := readLines(c.prompts)
		if err != nil {
			return err
		}
		c.texts = append(c.texts, lines...)
	}
	switch {
	case len(c.class) > 0 && !c.ofClasses:
		return usage("--class is %s, want none: the model has no classes", param.Quote(c.class[0]))
	case len(c.prompt) > 0 && !spec.Prompt:
		return usage("--prompt is %s, want none: the model reads no prompts", param.Quote(c.prompt[0]))
	case c.prompts != "" && !spec.Prompt && !c.ofClasses:
		return usage("--prompts is %s, want none: the model has no classes and reads no prompts",
			param.Quote(c.prompts))
	case c.negative != "" && !spec.Prompt:
		return usage("--negative is %s, want none: the model reads no prompts", param.Quote(c.negative))
	case c.negative != "" && o.Guidance.Scale == 0:
		return usage("--negative is %s, want none without guidance", param.Quote(c.negative))
	case spec.Prompt && len(c.texts) == 0:
		return usage("--prompt is missing: the model draws from a text")
	}
	if len(c.texts) == 0 {
		return nil
	}
	if err := c.make(ctx, m); err != nil {
		return err
	}
	c.recipe, c.labelSeed = o.Recipe().String(), o.Seed
	o.Conditions = c.condition
	return nil
}

// make encodes the texts.
func (c *conditionFlags) make(ctx context.Context, m *unmask.Model) (err error) {
	if !c.ofClasses {
		ctx, cancel := terminal.UntilStopped(ctx)
		defer cancel()
		if c.list, err = m.PromptConditions(ctx, c.texts, c.negative); err != nil {
			return err
		}
		for i, p := range c.list {
			if p.Prompt.Cut {
				terminal.Say("prompt %s is longer than the %d tokens that the model reads: its end is left out",
					param.Quote(c.texts[i]), p.Prompt.Rows)
			}
		}
		return nil
	}
	for _, text := range c.texts {
		condition, err := m.ClassCondition(text)
		if err != nil {
			return usage("--%v", err)
		}
		c.list = append(c.list, condition)
	}
	return nil
}

// condition returns what image i is drawn of.
func (c *conditionFlags) condition(i int) *model.Condition {
	if len(c.list) == 0 {
		return nil
	}
	return c.list[i%len(c.list)]
}

// wanted returns the class or the prompt of image i, as it was asked for.
func (c *conditionFlags) wanted(i int) (class, prompt string) {
	switch {
	case len(c.list) == 0:
	case c.ofClasses:
		class = c.texts[i%len(c.list)]
	default:
		prompt = c.texts[i%len(c.list)]
	}
	return class, prompt
}

// labelled puts what image i was drawn of into its PNG.
func (c *conditionFlags) labelled(i int, data []byte) []byte {
	if len(c.list) == 0 {
		return data
	}
	class, prompt := c.wanted(i)
	return images.Label(data,
		[][2]string{{"class", class}, {"prompt", prompt}, {"negative prompt", c.negative},
			{"seed", fmt.Sprint(c.labelSeed)},
			{"index", fmt.Sprint(i)}, {"recipe", c.recipe}})
}

// conditionSettings adds to the settings of a resumable run.
func (c *conditionFlags) conditionSettings(s runs.Settings) {
	if len(c.list) == 0 {
		return
	}
	name := "prompt"
	if c.ofClasses {
		name = "class"
	}
	s[name] = strings.Join(c.texts, "\n")
	if c.negative != "" {
		s["negative"] = c.negative
	}
}

// readLines reads the lines of a file; blank ones are left out.
func readLines(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--prompts: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--prompts %s: not a regular file", name)
	}
	var list []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			list = append(list, line)
		}
		if len(list) > maxLines {
			return nil, fmt.Errorf("--prompts %s: more than %d lines", name, maxLines)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("--prompts %s: %w", name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("--prompts %s: no lines, want one at least", name)
	}
	return list, nil
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
