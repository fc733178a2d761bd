package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"unmask/param"
	"unmask/samplers"
)

// samplerRecord is one line of --json.
type samplerRecord struct {
	Name       string        `json:"name"`
	Line       string        `json:"line"`
	Paper      string        `json:"paper"`
	Parameters []param.Param `json:"parameters"`
	Inside     string        `json:"inside,omitempty"` // what may stand in parentheses
	Cache      bool          `json:"cache"`            // whether it may have intermediate stages
	Uncached   string        `json:"uncached,omitempty"`
}

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
			records, err := samplerRecords()
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

func samplerRecords() ([]samplerRecord, error) {
	var out []samplerRecord
	for _, info := range samplers.List() {
		s, err := samplers.Parse(info.Name)
		if err != nil {
			return nil, err
		}
		r := samplerRecord{Name: info.Name, Line: info.Line, Paper: info.Paper, Parameters: info.Params,
			Inside: info.Inside, Cache: true}
		if r.Parameters == nil {
			r.Parameters = []param.Param{}
		}
		if u, ok := samplers.As[samplers.Uncached](s); ok {
			r.Cache, r.Uncached = false, u.Uncached()
		}
		out = append(out, r)
	}
	return out, nil
}
