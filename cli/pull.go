package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/weights/hub"
)

func newPull() *cobra.Command {
	return &cobra.Command{
		Use:   "pull org/name[@revision]",
		Short: "Download a model to the Hugging Face cache, and print its directory",
		Long: `Download a model to the Hugging Face cache, and print its directory.

The cache, the server and the token are those of Hugging Face's own client: HF_HOME,
HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE.`,
		Args: exactly(1, "org/name[@revision]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			repo, revision, err := hub.Parse(args[0])
			if err != nil {
				return usage("%v", err)
			}
			ctx, cancel := untilStopped(cmd.Context())
			defer cancel()
			dir, err := hub.Pull(ctx, repo, revision, unmask.HubFiles, downloadProgress())
			if err != nil {
				return err
			}
			fmt.Println(dir)
			return nil
		},
	}
}

func newList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the models in the Hugging Face cache",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			cached, err := hub.List()
			if err != nil {
				return err
			}
			for _, c := range cached {
				if asJSON {
					if err := json.NewEncoder(os.Stdout).Encode(c); err != nil {
						return err
					}
					continue
				}
				fmt.Printf("%-40s %-12.12s %8.1f MB  %s\n", c.Repo, c.Commit, float64(c.Size)/1e6, strings.Join(c.Refs, " "))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line and snapshot")
	return cmd
}
