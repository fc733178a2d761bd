package flags

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"unmask/backend/open"
	"unmask/generate"
	"unmask/param"
	"unmask/samplers"
)

// Int adds a flag of a whole number. *value gets the default, p.Default, at once.
func Int(f *pflag.FlagSet, value *int, p param.Param) { IntP(f, value, "", p) }

// IntP is Int with a one-letter name, such as n for -n; "" for none.
func IntP(f *pflag.FlagSet, value *int, shorthand string, p param.Param) {
	p.Kind = param.Whole
	addNumber(f, value, shorthand, p, p.Int)
}

// Float adds a flag of a number. *to gets the default, p.Default, at once.
func Float(f *pflag.FlagSet, value *float64, p param.Param) { addNumber(f, value, "", p, p.Float) }

// addNumber adds a flag whose texts parse reads. It panics for a default out of the parameter's
// range, which is a mistake in the program.
func addNumber[T any](f *pflag.FlagSet, value *T, shorthand string, p param.Param,
	parse func(text string) (T, error)) {
	set := func(text string) (err error) {
		*value, err = parse(text)
		return err
	}
	if err := set(p.Default); err != nil {
		panic(err)
	}
	f.VarP(&paramValue{p, p.Default, set}, p.Name, shorthand, p.Help)
}

// Duration adds a flag of a time, which is not negative.
func Duration(f *pflag.FlagSet, value *time.Duration, name string, byDefault time.Duration,
	help string) {
	*value = byDefault
	f.Var((*durationValue)(value), name, help)
}

// durationValue is a time of at least 0.
type durationValue time.Duration

// String implements pflag.Value.
func (d *durationValue) String() string { return time.Duration(*d).String() }

// Type implements pflag.Value.
func (d *durationValue) Type() string { return "duration" }

// Set implements pflag.Value.
func (d *durationValue) Set(text string) error {
	duration, err := time.ParseDuration(text)
	if err == nil && duration < 0 {
		err = errors.New("a negative time, want 0s or more")
	}
	*d = durationValue(duration)
	return err
}

// Seed adds a flag of a 64-bit number, 0 by default.
func Seed(f *pflag.FlagSet, seed *uint64, name, help string) {
	p := param.Param{Name: name, Kind: param.Whole, Default: "0", Help: help}
	Var(f, p, func(text string) (err error) {
		*seed, err = strconv.ParseUint(text, 10, 64)
		if err != nil {
			return &param.Error{
				Name:  name,
				Found: param.Quote(text),
				Want:  "a whole number, 0 to 18446744073709551615",
			}
		}
		return nil
	})
}

// Var adds a flag for any parameter and returns it. set reads its values; p.Default is shown in
// help and not read.
func Var(f *pflag.FlagSet, p param.Param, set func(text string) error) *pflag.Flag {
	return f.VarPF(&paramValue{p, p.Default, set}, p.Name, "", p.Help)
}

// paramValue is a pflag.Value of a parameter.
type paramValue struct {
	param.Param

	// text is the latest value, as the user wrote it.
	text string

	set func(text string) error
}

// String returns the text.
func (v *paramValue) String() string { return v.text }

// Set reads a text.
func (v *paramValue) Set(text string) error {
	err := v.set(text)
	if err == nil {
		v.text = text
	}
	return err
}

// Type returns the kind that help shows.
func (v *paramValue) Type() string {
	switch v.Kind {
	case param.Number:
		return "float"
	case param.Whole:
		return "int"
	}
	return "string"
}

// ExplainError returns pflag's error in the words of package param, with the flag's name.
func ExplainError(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	flag := invalid.GetFlag()
	name := "--" + flag.Name
	if len(flag.Name) == 1 {
		name = "-" + flag.Name
	}
	if refused, ok := errors.AsType[*param.Error](err); ok && refused.Err == nil {
		return &param.Error{Name: name, Found: refused.Found, Want: refused.Want}
	}
	e := &param.Error{Name: name, Found: param.Quote(invalid.GetValue())}
	switch flag.Value.Type() {
	case "bool":
		e.Want = "true or false"
	case "duration":
		e.Want = "a time such as 200ms, 20s or 5m"
	default:
		return fmt.Errorf("%s: %w", name, errors.Unwrap(invalid))
	}
	return e
}

// AllowedWords returns the values that a flag added by this package may have, nil if they are not
// words.
func AllowedWords(f *pflag.Flag) []string {
	if v, ok := f.Value.(*paramValue); ok {
		return v.Words
	}
	return nil
}

// SuggestNames returns the flags of a set whose names are like the unknown one in err, an error of
// pflag.
func SuggestNames(f *pflag.FlagSet, err error) (names []string) {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return nil
	}
	f.VisitAll(func(g *pflag.Flag) { names = append(names, g.Name) })
	return param.Nearest(unknown.GetSpecifiedName(), names)
}

// ChangedValues returns the values of the flags that the user set, by name.
func ChangedValues(f *pflag.FlagSet) map[string]string {
	values := map[string]string{}
	f.Visit(func(g *pflag.Flag) { values[g.Name] = g.Value.String() })
	return values
}

// CommandLine returns a command with the flags that the user set, except for those in omitted.
func CommandLine(command string, f *pflag.FlagSet, omitted ...string) string {
	f.Visit(func(g *pflag.Flag) {
		if !slices.Contains(omitted, g.Name) {
			command += " --" + strings.TrimSuffix(g.Name+"="+g.Value.String(), "=true")
		}
	})
	return command
}

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
			flag := Var(f, p, func(text string) error {
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

// RecipeOverrides returns the values of the flags that Register added and the user set.
func RecipeOverrides(f *pflag.FlagSet) generate.Overrides {
	overrides := generate.Overrides{}
	changed := ChangedValues(f)
	for _, p := range append(generate.Params(), samplers.AlphaParam, samplers.GammaParam) {
		if text, ok := changed[p.Name]; ok && p.Name != "ban" && p.Name != "bias" {
			overrides[p.Name] = text
		}
	}
	return overrides
}

// Threads adds --threads.
func Threads(f *pflag.FlagSet, threads *int, help string) {
	Int(f, threads, param.Param{
		Name:    "threads",
		Min:     1,
		Max:     open.MaxThreads,
		Default: strconv.Itoa(min(runtime.GOMAXPROCS(0), open.MaxThreads)),
		Help:    help,
	})
}

// Device adds --device.
func Device(f *pflag.FlagSet, device *string) {
	f.StringVar(device, "device", "auto",
		"`DEVICE` to compute on: cpu, cuda or cuda:N, or auto for a GPU where there is one")
}

// CheckDevice returns an error for a name that no device can have.
func CheckDevice(name string) error {
	if open.CheckName(name) != nil {
		return Usagef("--device is %q, want auto, cpu, cuda or cuda:N", name)
	}
	return nil
}
