package cli

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"unmask/cli/terminal"
	"unmask/research/judges"
)

// newInspect returns the command unmask inspect.
func newInspect() *cobra.Command {
	var asJSON bool
	var d deviceFlags
	cmd := &cobra.Command{
		Use: "inspect MODEL",
		Example: `  unmask inspect demo
  unmask inspect ./llada.gguf`,
		Short: "Show a model's architecture, sizes, parameters, dtypes, tokenizer and unused tensors",
		Args: exactArgs(1, "a MODEL: demo, a directory, org/name[@revision][:folder/], or an exact one such as "+
			"oracle:markov:length=16,tokens=4"),
		RunE: func(cmd *cobra.Command, args []string) error {
			debug.SetGCPercent(20) // the files of a tokenizer make more garbage than all headers take
			r, err := judges.Inspect(cmd.Context(), args[0], d.as, terminal.DownloadProgress())
			if err != nil {
				return refuseModelName(err)
			}
			return printValue(r, asJSON)
		},
	}
	d.registerAs(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}
