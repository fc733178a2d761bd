package cli

import (
	"bytes"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"unmask/internal/atomicfile"
	"unmask/internal/buildinfo"
)

// newMan returns the command that writes manual pages, for packagers.
func newMan(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages, a file for each command, unmask.1 and so on",
		Args:  exactly(1, "a DIR for the pages"),

		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			root.DisableAutoGenTag = true
			return writeManual(root, args[0])
		},
	}
}

// writeManual writes the pages of a command and of those under it.
func writeManual(cmd *cobra.Command, dir string) error {
	if !cmd.IsAvailableCommand() && cmd.HasParent() {
		return nil
	}
	for _, under := range cmd.Commands() {
		if err := writeManual(under, dir); err != nil {
			return err
		}
	}
	var page bytes.Buffer
	date := buildinfo.Date()
	if err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Source: "unmask", Manual: "unmask",
		Date: &date}, &page); err != nil {
		return err
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	return atomicfile.Put(filepath.Join(dir, name), page.Bytes())
}
