package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"unmask/cli/terminal"
	"unmask/internal/atomicfile"
	"unmask/research/experiments"
)

func newPlot() *cobra.Command {
	var out, metric string
	cmd := &cobra.Command{
		Use: "plot results.jsonl",
		Example: `  unmask sweep plan.yaml && unmask plot results.jsonl
  unmask plot results.jsonl --out figures.pdf --metric entropy
  unmask plot results.jsonl --out results.csv                   for pandas.read_csv`,
		Short: "Draw a sweep: quality against steps and time, perplexity against entropy (SVG, PNG, PDF)",
		Args:  exactly(1, "a results.jsonl of unmask sweep"),
		RunE: func(_ *cobra.Command, args []string) error {
			_, results, dropped, err := experiments.ReadJournal(args[0])
			if err != nil {
				return err
			}
			sayDropped(args[0], dropped)
			if filepath.Ext(out) == ".csv" {
				data, err := experiments.CSV(results)
				if err == nil {
					err = atomicfile.Put(out, data)
				}
				return wrote(err, out)
			}
			charts, err := experiments.ChartsOf(results, metric)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			names, err := experiments.DrawCharts(out, charts)
			return wrote(err, names...)
		},
	}
	cmd.Flags().StringVar(&out, "out", ".", "write the plots to this `DIR`, or to FILE.pdf, a page for each; to FILE.csv, the results as a table")
	cmd.Flags().StringVar(&metric, "metric", "",
		"the `METRIC` to draw, such as entropy, self_bleu or score (default perplexity of text, frechet of images)")
	return cmd
}

// drawn draws charts in a folder or a .pdf, and says the names of the files.
func drawn(plots string, charts ...experiments.Chart) error {
	names, err := experiments.DrawCharts(plots, charts)
	for _, name := range names {
		terminal.Line(name)
	}
	return err
}
