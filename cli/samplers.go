package cli

import (
	"encoding/json"
	"fmt"
	"strings"

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
			records, err := samplers.Describe()
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				line := json.NewEncoder(out)
				for _, r := range records {
					if err := line.Encode(r); err != nil {
						return err
					}
				}
				return nil
			}
			for _, r := range records {
				name := r.Name
				if !r.Cache {
					name += "*"
				}
				var inside []string
				if r.Inside != "" {
					inside = append(inside, r.Inside)
				}
				for _, p := range r.Parameters {
					inside = append(inside, p.Name)
				}
				line := r.Line
				if len(inside) > 0 {
					line += " (" + strings.Join(inside, ", ") + ")"
				}
				if _, err := fmt.Fprintf(out, "%-18s %s [%s]\n", name, line, r.Paper); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"one JSON object a line: name, line, paper, parameters, inside, cache, uncached")
	return cmd
}
