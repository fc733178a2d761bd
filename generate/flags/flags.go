// Package flags asks for a recipe on a command line: a flag for each of its parameters, read and
// refused as generate does.
package flags

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"unmask/generate"
	"unmask/param"
	"unmask/param/flags"
	"unmask/samplers"
)

// File ends the names of schedules that are files, as samplers.OpenTimes reads them.
const File = ".json"

// Register adds a flag for each parameter of a recipe but ban and bias, which are in text, and for
// alpha and gamma. Help shows the defaults.
func Register(f *pflag.FlagSet, defaults generate.Recipe) {
	for _, p := range generate.Params() {
		if def := defaults.Get(p.Name); def != "" {
			p.Default = def
		}
		switch p.Name {
		case "sampler", "schedule": // which Asked refuses, by its full text, or is a file
			f.String(p.Name, p.Default, p.Help)
		case "ban", "bias":
		default:
			flag := flags.Text(f, p, func(text string) error {
				return new(generate.Recipe).Set(p.Name, text)
			})
			if p.Name == "cache" {
				flag.NoOptDefVal = "1"
			}
		}
	}
	for _, p := range []param.Param{samplers.AlphaParam, samplers.GammaParam} {
		flags.Float(f, new(float64), p)
	}
}

// Asked returns what the flags that Register added were given.
func Asked(f *pflag.FlagSet) (generate.Asked, error) {
	asked, given := generate.Asked{}, flags.Given(f)
	for _, p := range append(generate.Params(), samplers.AlphaParam, samplers.GammaParam) {
		if text, ok := given[p.Name]; ok && p.Name != "ban" && p.Name != "bias" {
			asked[p.Name] = text
		}
	}
	if name := asked["schedule"]; strings.HasSuffix(name, File) {
		schedule, err := samplers.OpenTimes(name)
		if err != nil {
			return nil, fmt.Errorf("schedule: %w", err)
		}
		asked["schedule"] = schedule.String()
	}
	return asked, nil
}
