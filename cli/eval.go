package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"unmask/research/experiments"
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

// printEvaluation prints the measured metrics.
func printEvaluation(e experiments.Evaluation, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(stdout).Encode(e)
	}
	return standardOutput(e.String())
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
