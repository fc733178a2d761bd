package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"unmask/catalog"
	"unmask/cli/terminal"
	"unmask/weights/hub"
)

// newPull returns the command unmask pull.
func newPull() *cobra.Command {
	return &cobra.Command{
		Use: "pull org/name[@revision][:folder/ or :file.gguf]",
		Example: `  unmask pull jdeschena/sdtt@baselines_kld_step_70000
  unmask pull convaiinnovations/laya:typed-decisions/`,
		Short: "Download a model to the Hugging Face cache, and print its directory",
		Long: `Download a model to the Hugging Face cache, and print its directory.

The files are its configuration, safetensors (one file or several), tokenizer and chat template, or
one GGUF file by its name. Of a repository with a model in a folder, org/name:folder/ pulls that folder
and org/name none of it. What a published model needs besides its repository, such as TiTok's image
tokenizer, is downloaded too.

The cache, the server and the token are those of Hugging Face's own client: HF_HOME,
HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE.`,
		Args: exactArgs(1, "org/name[@revision][:folder/ or :file.gguf]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, _, _, err := hub.ParseModelName(args[0]); err != nil {
				return usagef("%v", err)
			}
			dir, err := hub.PullModel(cmd.Context(), args[0], terminal.DownloadProgress())
			if err != nil {
				return err
			}
			fmt.Fprintln(stdout, dir) // first, so that scripts read the model's own directory
			companions, err := catalog.PullCompanions(cmd.Context(), args[0],
				terminal.DownloadProgress())
			if err != nil {
				return err
			}
			for _, dir := range companions {
				fmt.Fprintln(stdout, dir)
			}
			return nil
		},
	}
}

// newList returns the command unmask list.
func newList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Example: `  unmask list`,
		Short:   "List local models: the embedded ones and those in the Hugging Face cache",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			cached, err := hub.List()
			if err != nil {
				return err
			}
			show := func(v any) { fmt.Fprintln(stdout, v) }
			if asJSON {
				show = func(v any) { json.NewEncoder(stdout).Encode(v) }
			}
			for _, name := range catalog.Embedded() {
				show(embedded{name, true})
			}
			for _, c := range cached {
				show(c)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false,
		"one JSON object a line: name and embedded, or what the cache has of a snapshot")
	return cmd
}

// embedded is a line of unmask list.
type embedded struct {
	Name     string `json:"name"`
	Embedded bool   `json:"embedded"`
}

// String returns the line that is printed, with the columns of a model in the cache.
func (e embedded) String() string { return fmt.Sprintf("%-40s embedded", e.Name) }
