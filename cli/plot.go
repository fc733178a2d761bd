package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"unmask/experiments"
)

func newPlot() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "plot results.jsonl",
		Short: "Draw a sweep: quality against steps and time, perplexity against entropy (SVG, PNG)",
		Args:  exactly(1, "a results.jsonl of unmask sweep"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, results, dropped, err := experiments.ReadJournal(args[0])
			if err != nil {
				return err
			}
			sayDropped(args[0], dropped)
			charts := experiments.Charts(results)
			if len(charts) == 0 {
				return fmt.Errorf("%s: no results yet", args[0])
			}
			names, err := experiments.DrawCharts(out, charts)
			return wrote(err, names...)
		},
	}
	cmd.Flags().StringVar(&out, "out", ".", "write the plots to this `DIR`")
	return cmd
}
