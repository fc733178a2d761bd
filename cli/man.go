package cli

import (
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan writes manual pages, for whoever packs the program.
func newMan(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages, a file for each command, unmask.1 and so on",
		Args:  exactly(1, "a DIR for the pages"),

		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			root.DisableAutoGenTag = true
			date := committed()
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "unmask",
				Manual: "unmask", Date: &date}, args[0])
		},
	}
}

// committed is when the program's source was, so that pages of one source are the same each time.
func committed() time.Time {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if t, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
				return t
			}
		}
	}
	return time.Unix(0, 0).UTC()
}
