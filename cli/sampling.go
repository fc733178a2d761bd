package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
	"unmask/research/experiments"
	"unmask/runs"
	"unmask/runs/outputs"
)

// samplingFlags are the flags of a recipe.
type samplingFlags struct {
	// spec is that of the kind of models whose defaults help shows, until a model is loaded.
	spec model.Spec

	n     int
	batch int
	seed  uint64
}

// registerRecipe adds the flags of a recipe alone, of texts if no kind is set.
func (s *samplingFlags) registerRecipe(f *pflag.FlagSet) {
	if s.spec.Shape == nil {
		s.spec = model.Spec{Shape: []int{1}}
	}
	flags.RegisterRecipe(f, generate.Defaults(s.spec))
}

const maxSamples = 1 << 30

// register adds the flags, with the defaults of models of a kind.
func (s *samplingFlags) register(f *pflag.FlagSet, kind model.Spec) {
	s.spec = kind
	s.registerRecipe(f)
	flags.IntP(f, &s.n, "n", param.Param{
		Name:    "n",
		Min:     1,
		Max:     maxSamples,
		Default: "1",
		Help:    "number of samples",
	})
	flags.Int(f, &s.batch, param.Param{
		Name:    "batch",
		Min:     1,
		Max:     maxSamples,
		Zero:    "a size by length and memory",
		Default: "0",
		Help: "samples at once, 0 to choose by length and a GPU's memory; the output does not depend " +
			"on it",
	})
	addSeedFlag(f, &s.seed, "same seed, same output")
}

// readOverrides returns the parameters that flags override; it returns an error for values that are
// wrong for every model. What is wrong for one model shows once that is loaded, perhaps minutes
// later.
func (s *samplingFlags) readOverrides(f *pflag.FlagSet) (generate.Overrides, error) {
	overrides := flags.RecipeOverrides(f)
	return overrides, flagMistake(overrides.Check())
}

// flagMistake returns the error of a parameter as one of its flag, nil for nil.
func flagMistake(err error) error {
	if err == nil {
		return nil
	}
	return usagef("--%v", err)
}

// followFlags choose how a run is shown and traced.
type followFlags struct{ terminal.Display }

// register adds the flags; what names the things that open, in the plural.
func (f *followFlags) register(s *pflag.FlagSet, what string) {
	s.BoolVar(&f.Watch, "watch", false, "show "+what+" in the terminal while they open")
	s.StringVar(&f.Trace, "trace", "",
		"write which position opened at which step, and its probability, to this new `FILE` of JSON lines")
}

// checkFlags returns an error for --watch if the terminal cannot be drawn on, and for --trace if
// the file cannot be written.
func (f *followFlags) checkFlags() error {
	if f.Watch && !terminal.CanRedraw(os.Stderr) {
		return usagef("--watch needs a terminal on standard error")
	}
	return checkFile("--trace", f.Trace)
}

// makeSamples makes samples of a job and puts them to out.
func (f *followFlags) makeSamples(ctx context.Context, d *deviceFlags, j *outputs.Job,
	list []runs.Span, out outputs.Output, h outputs.Hooks) error {
	f.Name = d.model
	return f.MakeSamples(ctx, j, list, out, h)
}

// methodFlags are the lists of samplers and of steps of a comparison.
type methodFlags struct {
	methods []experiments.Point
	steps   []int
}

// register adds the flags; samplers and steps are the defaults as the help shows them.
func (m *methodFlags) register(f *pflag.FlagSet, samplers, steps string) {
	flags.Var(f, param.Param{
		Name:    "sampler",
		Kind:    param.Text,
		Default: samplers,
		Help:    "`LIST` of samplers, each as for unmask text: random,\"moment(alpha=3)\",hybrid+cache",
	},
		func(text string) (err error) {
			m.methods, err = experiments.ParseMethods(text)
			return err
		})
	flags.Var(f, param.Param{
		Name:    "steps",
		Kind:    param.Text,
		Default: steps,
		Help:    "`LIST` of numbers of steps, such as 8,16,32",
	}, m.setSteps)
}

// setSteps reads a list of numbers of steps, each within the range of --steps of other commands.
func (m *methodFlags) setSteps(text string) error {
	m.steps = nil
	for field := range strings.SplitSeq(text, ",") {
		var r generate.Recipe
		if err := r.Set("steps", strings.TrimSpace(field)); err != nil {
			return err
		}
		m.steps = append(m.steps, r.Steps)
	}
	return nil
}
