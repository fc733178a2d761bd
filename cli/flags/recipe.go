package flags

import (
	"github.com/spf13/pflag"

	"unmask/generate"
	"unmask/param"
	"unmask/samplers"
)

// RegisterRecipe adds a flag for each parameter of a recipe, except ban and bias, which commands
// take as text, and for alpha and gamma. Help shows the defaults.
func RegisterRecipe(f *pflag.FlagSet, defaults generate.Recipe) {
	for _, p := range generate.Params() {
		if def := defaults.Get(p.Name); def != "" {
			p.Default = def
		}
		switch p.Name {
		// Recipe checks these, because their text may be longer
		case "sampler", "schedule":
			f.String(p.Name, p.Default, p.Help)
		case "ban", "bias":
		default:
			flag := Value(f, p, func(text string) error {
				return new(generate.Recipe).Set(p.Name, text)
			})
			if p.Name == "cache" {
				flag.NoOptDefVal = "1"
			}
		}
	}
	for _, p := range []param.Param{samplers.AlphaParam, samplers.GammaParam} {
		Float(f, new(float64), p)
	}
}

// Recipe returns the values of the flags that Register added and the user set.
func Recipe(f *pflag.FlagSet) generate.Overrides {
	over, given := generate.Overrides{}, Given(f)
	for _, p := range append(generate.Params(), samplers.AlphaParam, samplers.GammaParam) {
		if text, ok := given[p.Name]; ok && p.Name != "ban" && p.Name != "bias" {
			over[p.Name] = text
		}
	}
	return over
}
