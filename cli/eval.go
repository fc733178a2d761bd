package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

func newEval() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure samples and samplers: by a judge, a reference, the truth",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEvalText(), newEvalImage(), newEvalExactness(), newEvalTasks())
	return cmd
}

// printLines prints values as JSON, one a line.
func printLines[T any](list []T) error {
	lines := json.NewEncoder(stdout)
	for _, v := range list {
		if err := lines.Encode(v); err != nil {
			return err
		}
	}
	return nil
}
