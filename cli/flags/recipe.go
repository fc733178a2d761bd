package flags

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"unmask/generate"
	"unmask/param"
	"unmask/samplers"
)

// File is the suffix of schedules that are files, see samplers.OpenTimes.
const File = ".json"

// ErrFile marks errors in a file that a flag names; other errors are mistakes on the command line.
var ErrFile = errors.New("file")

type fileError struct{ error }

// Is reports whether target is ErrFile.
func (e fileError) Is(target error) bool { return target == ErrFile }

// Unwrap returns the error without the mark.
func (e fileError) Unwrap() error { return e.error }

// RegisterRecipe adds a flag for each parameter of a recipe, except ban and bias, which commands
// take as text, and for alpha and gamma. Help shows the defaults.
func RegisterRecipe(f *pflag.FlagSet, defaults generate.Recipe) {
	for _, p := range generate.Params() {
		if def := defaults.Get(p.Name); def != "" {
			p.Default = def
		}
		switch p.Name {
		// Recipe checks these, because their text may be longer or name a file
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
func Recipe(f *pflag.FlagSet) (generate.Overrides, error) {
	over, given := generate.Overrides{}, Given(f)
	for _, p := range append(generate.Params(), samplers.AlphaParam, samplers.GammaParam) {
		if text, ok := given[p.Name]; ok && p.Name != "ban" && p.Name != "bias" {
			over[p.Name] = text
		}
	}
	if name := over["schedule"]; strings.HasSuffix(name, File) {
		schedule, err := samplers.OpenTimes(name)
		if err != nil {
			return nil, fmt.Errorf("schedule: %w", fileError{err})
		}
		over["schedule"] = schedule.String()
	}
	return over, nil
}
