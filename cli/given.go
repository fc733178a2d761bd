package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/cli/flags"
)

// mayBeEmpty are the flags whose empty text means something: a prompt of nothing.
var mayBeEmpty = []string{"prompt", "negative", "system", "infill"}

// checkFlagsAndArgs returns an error for flags and arguments that are there but empty, and for
// flags that are required but missing.
func checkFlagsAndArgs(cmd *cobra.Command, args []string) error {
	if cmd.DisableFlagParsing { // it completes a line that is being typed
		return nil
	}
	return cmp.Or(refuseEmpty(cmd, args), refuseMissing(cmd))
}

// countTrue returns how many of its arguments are true, such as flags that exclude each other.
//
// Cobra's MarkFlagsMutuallyExclusive does for two flags of which neither is needed. It cannot say
// that one of several is needed, nor that one of them needs a flag beside it.
func countTrue(flags ...bool) (n int) {
	for _, set := range flags {
		if set {
			n++
		}
	}
	return n
}

// refuseMissing returns an error for the first flag that MarkFlagRequired requires and that is
// missing. Cobra looks for them too, later, but its error is words alone.
func refuseMissing(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		required := slices.Contains(f.Annotations[cobra.BashCompOneRequiredFlag], "true")
		if err == nil && required && !f.Changed {
			_, help := pflag.UnquoteUsage(f)
			err = usagef("--%s is missing, want %s", f.Name, help)
		}
	})
	return err
}

// refuseEmpty returns an error for flags and arguments that are there but empty, as "$UNSET" in a
// script makes them: they do not count as left out.
func refuseEmpty(cmd *cobra.Command, args []string) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = len(list.GetSlice()) == 0 || slices.Contains(list.GetSlice(), "")
		}
		if err == nil && empty && !slices.Contains(mayBeEmpty, f.Name) {
			err = usagef("--%s is empty, want a value, or no --%s", f.Name, f.Name)
		}
	})
	if i := slices.Index(args, ""); err == nil && i >= 0 {
		err = usagef("argument %d is empty, want a value", i+1)
	}
	return err
}

// addSeedFlag adds --seed.
func addSeedFlag(f *pflag.FlagSet, seed *uint64, help string) { flags.Seed(f, seed, "seed", help) }

// flagHints are flags of other programs, with the flag and the value that do the same here.
var flagHints = map[string]string{
	"port":           "listen 127.0.0.1:PORT",
	"host":           "listen HOST:8080",
	"bind":           "listen HOST:8080",
	"temp":           "temperature",
	"max-new-tokens": "max-tokens",
	"n-predict":      "max-tokens",
	"system-prompt":  "system",
}

// hintFlag returns the hint for an unknown flag, "" if the command lacks the flag that it names.
func hintFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	hint := flagHints[unknown.GetSpecifiedName()]
	name, _, _ := strings.Cut(hint, " ")
	if cmd.Flags().Lookup(name) == nil {
		return ""
	}
	return hint
}

// explainFlagError returns pflag's error about a flag in our words, with the flags that were
// probably meant. Pflag's own speak of Go (strconv.ParseInt: parsing "x": invalid syntax).
func explainFlagError(cmd *cobra.Command, err error) error {
	if hint := hintFlag(cmd, err); hint != "" {
		return usagef("%v, did you mean --%s?", err, hint)
	}
	if similar := flags.SuggestNames(cmd.Flags(), err); len(similar) > 0 {
		return usagef("%v, did you mean --%s?", err, strings.Join(similar, " or --"))
	}
	return usagef("%v", flags.ExplainError(err))
}
