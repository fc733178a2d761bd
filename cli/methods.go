package cli

import (
	"github.com/spf13/pflag"

	"strings"
	"unmask/cli/flags"
	"unmask/generate"
	"unmask/param"
	"unmask/research/experiments"
)

// methodFlags are the lists of samplers and of steps of a comparison.
type methodFlags struct {
	methods []experiments.Point
	steps   []int
}

// register adds the flags; samplers and steps are the defaults as the help shows them.
func (m *methodFlags) register(f *pflag.FlagSet, samplers, steps string) {
	flags.Value(f, param.Param{Name: "sampler", Kind: param.Text, Default: samplers,
		Help: "`LIST` of samplers, each as for unmask text: random,\"moment(alpha=3)\",hybrid+cache"},
		func(text string) (err error) {
			m.methods, err = experiments.ParseMethods(text)
			return err
		})
	flags.Value(f, param.Param{Name: "steps", Kind: param.Text, Default: steps,
		Help: "`LIST` of numbers of steps, such as 8,16,32"}, m.setSteps)
}

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
