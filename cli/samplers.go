package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"unmask/samplers"
)

func newSamplers() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "samplers",
		Short: "List all rules for what opens next",
		Long: `List all rules for what opens next.

Parameters stand in parentheses, moment(alpha=3), and so do the rules that others go around:
semi-ar(hybrid), eb(margin), hybrid(random,u-moment). With +cache at the end a step has an
intermediate stage of partial caching (not for those marked with *).`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := samplers.Describe()
			if err != nil {
				return err
			}
			line := json.NewEncoder(stdout)
			for _, d := range list {
				if asJSON {
					line.Encode(d)
				} else {
					fmt.Fprintln(stdout, d)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"one JSON object a line: name, line, paper, parameters, inside, cache, uncached")
	return cmd
}
