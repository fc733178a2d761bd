package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"unmask/bench"
	"unmask/cli/flags"
	"unmask/param"
)

// newBench returns the command unmask bench.
func newBench() *cobra.Command {
	var o bench.Options
	var asJSON, everything bool
	cmd := &cobra.Command{
		Use: "bench",
		Example: `  unmask bench                       the usual ones, two minutes on two cores
  unmask bench --only step64         one measurement
  unmask bench --all                 everything, half an hour or more`,
		Short: "Measure kernels and whole passes as shares of what this processor can do",
		Long: `Measure kernels and whole passes as shares of what this processor can do.

Seconds are medians. The share is the fraction of a ceiling that a measurement reaches. The ceiling
is a loop of only the instruction named in the last column, or of reading memory, run in turn with
each call. A sampler's own work is its step without the network and the output head. UNMASK_ISA
chooses the instruction set.

Without --only and --all these are measured:
  ` + strings.ReplaceAll(bench.Usual, ",", "\n  "),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Only == "" && !everything {
				o.Only = bench.Usual
			}
			if _, err := bench.Select(o.Only); err != nil {
				return usagef("%v", wrapError("--only", err))
			}
			if asJSON {
				line := json.NewEncoder(stdout)
				return bench.Run(cmd.Context(), o, func(r bench.Result) { line.Encode(r) })
			}
			fmt.Fprintln(stdout, bench.Heading)
			return bench.Run(cmd.Context(), o, func(r bench.Result) { fmt.Fprintln(stdout, r) })
		},
	}
	cmd.Flags().StringVar(&o.Only, "only", "",
		"`PATTERN` of names, such as forward or 'forward/*/int8,head'")
	cmd.Flags().BoolVar(&everything, "all", false, "measure everything")
	cmd.MarkFlagsMutuallyExclusive("only", "all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object a line")
	flags.Threads(cmd.Flags(), &o.Threads, "processor cores to use")
	flags.Int(cmd.Flags(), &o.Samples,
		param.Param{
			Name:    "samples",
			Min:     1,
			Max:     maxCalls,
			Default: "5",
			Help:    "calls per median",
		})
	return cmd
}

const maxCalls = 1000
