package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"unmask/research/experiments"
)

func newPlot() *cobra.Command {
	var out, metric string
	cmd := &cobra.Command{
		Use:     "plot results.jsonl",
		Example: `  unmask sweep plan.yaml && unmask plot results.jsonl`,
		Short:   "Draw a sweep: quality against steps and time, perplexity against entropy (SVG, PNG)",
		Args:    exactly(1, "a results.jsonl of unmask sweep"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, results, dropped, err := experiments.ReadJournal(args[0])
			if err != nil {
				return err
			}
			sayDropped(args[0], dropped)
			charts, err := experiments.ChartsOf(results, metric)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			names, err := experiments.DrawCharts(out, charts)
			return wrote(err, names...)
		},
	}
	cmd.Flags().StringVar(&out, "out", ".", "write the plots to this `DIR`")
	cmd.Flags().StringVar(&metric, "metric", "",
		"the `METRIC` to draw, such as entropy, self_bleu or score (default perplexity of text, frechet of images)")
	return cmd
}
