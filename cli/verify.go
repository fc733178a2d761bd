package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"unmask/runs"
)

// newVerify returns the command unmask verify.
func newVerify() *cobra.Command {
	return &cobra.Command{
		Use:     "verify RUN",
		Example: `  unmask image -n 100 --out samples && unmask verify samples`,
		Short:   "Check a run's folder of images, or its file of text, against its manifest",
		Long: `Check a run's folder of images, or its file of text, against its manifest.

Every output is read and compared with the SHA-256 in the manifest. Nothing is changed. The command
lists what is wrong, one line each, and the exit status is then 1. The command that made a folder makes
missing and empty images again; damaged ones must be removed first.`,
		Args: exactArgs(1, "the DIR of unmask image --out, or the FILE.jsonl of unmask text --out"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := runs.Verify(args[0])
			if err != nil {
				return err
			}
			for _, f := range r.Faults {
				if err := printLine(f.String()); err != nil {
					return err
				}
			}
			if n := len(r.Faults); n > 0 {
				return fmt.Errorf("%s: %d faults, listed are %d outputs", args[0], n, r.Outputs)
			}
			return printLine(fmt.Sprintf("%s: %d outputs, all as the manifest lists them", args[0],
				r.Outputs))
		},
	}
}
