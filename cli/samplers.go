package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"unmask/samplers"
)

// newSamplers returns the command unmask samplers.
func newSamplers() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "samplers [NAME...]",
		Short: "List all samplers, or show some with their parameters",
		Long: `List all samplers: the rules for which positions open next.

Parameters are in parentheses, moment(alpha=3), and so are the samplers that another one wraps:
semi-ar(hybrid), eb(margin), hybrid(random,u-moment). With +cache at the end a step has one
intermediate stage of partial caching (not for those marked with *).`,
		Example: "  unmask samplers moment eb     ranges, defaults and meaning of their parameters",
		RunE: func(cmd *cobra.Command, names []string) error {
			list := samplers.List()
			for _, name := range names {
				if !slices.ContainsFunc(list, func(d samplers.Info) bool { return d.Name == name }) {
					_, err := samplers.Parse(name)
					return usagef("%v", cmp.Or(err, fmt.Errorf("%q, want a name alone", name)))
				}
			}
			line := json.NewEncoder(stdout)
			for _, d := range list {
				switch {
				case len(names) > 0 && !slices.Contains(names, d.Name):
				case asJSON:
					line.Encode(d)
				case len(names) > 0:
					fmt.Fprint(stdout, d.Text())
				default:
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
