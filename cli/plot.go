package cli

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"unmask/experiments"
	"unmask/terminal"
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
			for i := range charts {
				if err := writeChart(out, &charts[i]); err != nil {
					return err
				}
				terminal.Say("%s.svg, .png", filepath.Join(out, charts[i].Name))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", ".", "write the plots to this `DIR`")
	return cmd
}

// writeChart writes a chart as SVG and PNG.
func writeChart(dir string, c *experiments.Chart) error {
	for ext, render := range map[string]func() ([]byte, error){".svg": c.SVG, ".png": c.PNG} {
		data, err := render()
		if err != nil {
			return err
		}
		if err := writeWhole(filepath.Join(dir, c.Name+ext), data); err != nil {
			return err
		}
	}
	return nil
}
