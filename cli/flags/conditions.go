package flags

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"unmask"
	"unmask/generate"
	"unmask/param"
	"unmask/prompt"
)

// Images are the flags for what images are drawn from: classes, prompts, a given picture, and the
// codes that they may have.
type Images struct {
	Picture

	ban         []string
	bias        []string
	classes     []string
	promptTexts []string
	prompts     string // a file's name
	negative    string
	preset      string

	// listedInputs counts the classes and prompts of the command line, which are the first inputs of
	// a run: those of the file follow.
	listedInputs int
}

// Register adds the flags.
func (f *Images) Register(s *pflag.FlagSet) {
	registerTokenFlags(s, &f.ban, &f.bias, "ids of the codebook such as 3,17")
	s.StringArrayVar(&f.classes, "class", nil,
		"`CLASS` to draw, a number or a name such as \"golden retriever\"; may be repeated")
	s.StringArrayVarP(&f.promptTexts, "prompt", "p", nil, "`TEXT` to draw; may be repeated")
	s.StringVar(&f.prompts, "prompts", "", "`FILE` of prompts or classes, one a line, or JSONL of "+
		"objects with prompt or class; - reads standard input")
	s.StringVar(&f.negative, "negative", "",
		"`TEXT` that guidance moves away from, instead of the empty prompt")
	s.StringVar(&f.preset, "preset", "",
		"`NAME` of a published run of the model: fid is its authors' evaluation")
	f.Picture.Register(s)
}

// Request returns the request of the flags and, where they name several classes or prompts, the
// inputs of the samples.
func (f *Images) Request(m *unmask.Model, overrides generate.Overrides) (r unmask.Request,
	list []unmask.Input, err error) {
	r = unmask.Request{
		Negative:    f.negative,
		Preset:      f.preset,
		Overrides:   overrides,
		Constraints: prompt.Constraints{Ban: f.ban, Bias: f.bias},
	}
	r.Image, err = f.ReadImage()
	if err != nil {
		return r, nil, err
	}

	for _, class := range f.classes {
		list = append(list, unmask.InputOf(unmask.Request{Class: class}))
	}
	for _, text := range f.promptTexts {
		list = append(list, unmask.InputOf(unmask.Request{Prompt: text}))
	}
	f.listedInputs = len(list)

	if f.prompts != "" {
		lines, err := f.readPrompts(m.Spec().Classes > 0)
		return r, append(list, lines...), err
	}
	if len(list) == 0 && m.Spec().Prompt {
		return r, nil, Usagef("--prompt is missing: the model draws from a text")
	}
	if len(list) == 1 { // the request itself, so that errors name the flag
		r, _, err = list[0].ApplyTo(r)
		return r, nil, Wrap("--prompt", err) // no class is refused here
	}
	return r, list, nil
}

// readPrompts returns the lines of --prompts as inputs of pictures.
func (f *Images) readPrompts(classes bool) ([]unmask.Input, error) {
	lines, err := readInputs(f.prompts)
	if err != nil {
		return nil, Wrap("--prompts", err)
	}
	for i, line := range lines {
		lines[i], err = pictureInput(line, classes)
		if err != nil {
			return nil, Usagef("--prompts: input %d: %v", i, err)
		}
	}
	return lines, nil
}

// pictureInput returns a line of --prompts as the request of an image: for a model of classes the
// text of a prompt is a class.
func pictureInput(in unmask.Input, classes bool) (unmask.Input, error) {
	r, seeded, err := in.ApplyTo(unmask.Request{})
	r.Prompt = strings.TrimSpace(r.Prompt)
	switch {
	case err != nil:
		return nil, err
	case seeded:
		return nil, &param.Error{
			Name:  "seed",
			Found: fmt.Sprint(r.Seed),
			Want:  "none for a picture: its number and the run's decide it",
		}
	case classes && r.Class == "":
		r.Class = r.Prompt
		r.Prompt = ""
	}
	if classes && r.Class == "" {
		return nil, param.Refuse("class", param.Missing, "class is missing")
	}
	return unmask.InputOf(r), nil
}

// NameFlag returns the error of preparing the requests of the flags, with the name of the flag that
// is wrong.
func (f *Images) NameFlag(err error) error {
	input, isInput := errors.AsType[*unmask.InputError](err)
	refused, ok := errors.AsType[*param.Error](err)
	switch {
	case isInput && input.Index >= f.listedInputs:
		return Usagef("--prompts: input %d: %v", input.Index-f.listedInputs, input.Err)
	case isInput:
		err = input.Err
	case ok && refused.Name == "prompt" && f.prompts != "":
		return Usagef("%v", Wrap("--prompts", refused.Cause()))
	}
	return NameFlag(f.Picture.nameFile(err))
}
