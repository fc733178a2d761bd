package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan returns the command that writes manual pages, for packagers.
func newMan(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages, a file for each command, unmask.1 and so on",
		Args:   exactly(1, "an existing DIR for the pages"),
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "unmask",
				Manual: "unmask"}, args[0])
		},
	}
}
