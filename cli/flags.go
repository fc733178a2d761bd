package cli

import (
	"errors"
	"runtime"
	"strconv"

	"github.com/spf13/pflag"

	"unmask/generate"
	"unmask/param"
)

// Flags of numbers read and refuse their values as package param does, so that a flag, a plan and
// the library have one grammar: "--steps is 0, want 1 to 4096".

// intFlag adds a flag of a whole number, with its default in p.Default. short is its one letter
// or "".
func intFlag(f *pflag.FlagSet, to *int, short string, p param.Param) {
	p.Kind = param.Whole
	var err error
	if *to, err = p.Int(p.Default); err != nil {
		panic(err)
	}
	f.VarP(&value{p, p.Default, func(text string) (err error) {
		*to, err = p.Int(text)
		return err
	}}, p.Name, short, p.Help)
}

// floatFlag adds a flag of a number, with its default in p.Default.
func floatFlag(f *pflag.FlagSet, to *float64, p param.Param) {
	var err error
	if *to, err = p.Float(p.Default); err != nil {
		panic(err)
	}
	f.Var(&value{p, p.Default, func(text string) (err error) {
		*to, err = p.Float(text)
		return err
	}}, p.Name, p.Help)
}

// threadsFlag adds --threads.
func threadsFlag(f *pflag.FlagSet, to *int, help string) {
	intFlag(f, to, "", param.Param{Name: "threads", Min: 1, Max: maxThreads,
		Default: strconv.Itoa(min(runtime.GOMAXPROCS(0), maxThreads)), Help: help})
}

// lengthFlag adds --length.
func lengthFlag(f *pflag.FlagSet, to *int) {
	intFlag(f, to, "", param.Param{Name: "length", Min: 1, Max: 1 << 30, Zero: "the model's",
		Default: "0",
		Help:    "tokens of a sample, 0 for the model's length"})
}

// seedFlag adds --seed.
func seedFlag(f *pflag.FlagSet, to *uint64, help string) {
	p := param.Param{Name: "seed", Kind: param.Whole, Help: help}
	f.Var(&value{p, "0", func(text string) error {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return &param.Error{Name: "seed", Found: param.Quote(text),
				Want: "a whole number, 0 to 18446744073709551615"}
		}
		*to = n
		return nil
	}}, p.Name, help)
}

// recipeFlag adds the flag of a parameter of recipes. It sets r.
func recipeFlag(f *pflag.FlagSet, r *generate.Recipe, name, def string) *pflag.Flag {
	p := generate.ParamOf(name)
	return f.VarPF(&value{p, def, func(text string) error { return r.Set(name, text) }}, name, "",
		p.Help)
}

// value is a pflag.Value that param reads.
type value struct {
	param.Param
	text string // as it was given last
	set  func(text string) error
}

// String returns the text.
func (v *value) String() string { return v.text }

// Set reads a text.
func (v *value) Set(text string) error {
	err := v.set(text)
	if err == nil {
		v.text = text
	}
	return err
}

// Type returns what help shows.
func (v *value) Type() string {
	switch v.Kind {
	case param.Number:
		return "float"
	case param.Whole:
		return "int"
	}
	return "string"
}

// flagError is a mistake in a flag. What a parameter refuses is said with the flag's name.
func flagError(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return usage("%v", err)
	}
	flag := invalid.GetFlag()
	name := "--" + flag.Name
	if len(flag.Name) == 1 {
		name = "-" + flag.Name
	}
	if refused, ok := errors.AsType[*param.Error](err); ok {
		return usage("%v", &param.Error{Name: name, Found: refused.Found, Want: refused.Want})
	}
	switch flag.Value.Type() {
	case "bool":
		return usage("%s is %s, want true or false", name, param.Quote(invalid.GetValue()))
	case "duration":
		return usage("%s is %s, want a time such as 200ms, 20s or 5m", name,
			param.Quote(invalid.GetValue()))
	}
	return usage("%s: %v", name, errors.Unwrap(invalid))
}
