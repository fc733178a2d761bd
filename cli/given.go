package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/cli/flags"
)

// mayBeEmpty are the flags whose empty text means something: a prompt of nothing.
var mayBeEmpty = []string{"prompt", "negative", "system", "infill"}

// checkGiven returns an error for flags and arguments that are there but empty, and for flags that
// are required but missing.
func checkGiven(cmd *cobra.Command, args []string) error {
	if cmd.DisableFlagParsing { // it completes a line that is being typed
		return nil
	}
	return cmp.Or(refuseEmpty(cmd, args), refuseMissing(cmd))
}

// howMany returns how many of some flags are given.
func howMany(given ...bool) (n int) {
	for _, is := range given {
		if is {
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
			err = usage("--%s is missing, want it set", f.Name)
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
			err = usage("--%s is empty, want a value, or no --%s", f.Name, f.Name)
		}
	})
	if i := slices.Index(args, ""); err == nil && i >= 0 {
		err = usage("argument %d is empty, want a value", i+1)
	}
	return err
}

// seedFlag adds --seed.
func seedFlag(f *pflag.FlagSet, to *uint64, help string) { flags.Seed(f, to, "seed", help) }

// flagError reports a mistake in a flag.
func flagError(cmd *cobra.Command, err error) error {
	if near := flags.SuggestNames(cmd.Flags(), err); len(near) > 0 {
		return usage("%v, did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return usage("%v", flags.ExplainError(err))
}
