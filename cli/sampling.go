package cli

import (
	"github.com/spf13/pflag"

	"unmask/cli/flags"
	"unmask/generate"
	"unmask/model"
	"unmask/param"
)

// samplingFlags are the flags of a recipe.
type samplingFlags struct {
	kind     model.Spec // of models whose defaults hold until one is loaded
	n, batch int
	seed     uint64
}

// recipe adds the flags of a recipe alone, of texts if no kind is set.
func (s *samplingFlags) recipe(f *pflag.FlagSet) {
	if s.kind.Shape == nil {
		s.kind = model.Spec{Shape: []int{1}}
	}
	flags.RegisterRecipe(f, generate.Defaults(s.kind))
}

const maxSamples = 1 << 30

// register adds the flags, with the defaults of models of a kind.
func (s *samplingFlags) register(f *pflag.FlagSet, kind model.Spec) {
	s.kind = kind
	s.recipe(f)
	flags.Count(f, &s.n, "n", param.Param{Name: "n", Min: 1, Max: maxSamples, Default: "1",
		Help: "how many samples"})
	flags.Int(f, &s.batch, param.Param{Name: "batch", Min: 1, Max: maxSamples,
		Zero: "a size by length and memory", Default: "0",
		Help: "samples at once, 0 to choose by length and a GPU's memory; the output does not depend " +
			"on it"})
	seedFlag(f, &s.seed, "same seed, same output")
}

// overrides returns the parameters that flags override; it returns an error for values that are
// wrong for every model.
func (s *samplingFlags) overrides(f *pflag.FlagSet) (generate.Overrides, error) {
	over := flags.Recipe(f)
	return over, mistake(over.Check())
}

// mistake returns an error of flags as a usage error.
func mistake(err error) error {
	if err == nil {
		return nil
	}
	return usage("--%v", err)
}
