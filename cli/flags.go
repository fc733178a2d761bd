package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask/cli/flags"
)

// seedFlag adds --seed.
func seedFlag(f *pflag.FlagSet, to *uint64, help string) { flags.Seed(f, to, "seed", help) }

// flagError reports a mistake in a flag.
func flagError(cmd *cobra.Command, err error) error {
	if near := flags.Near(cmd.Flags(), err); len(near) > 0 {
		return usage("%v, did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return usage("%v", flags.Explain(err))
}
