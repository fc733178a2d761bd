package cli

import (
	"context"

	"github.com/spf13/cobra"

	"unmask/param"
	"unmask/weights/pytorch"
)

// maxHeads bounds --heads.
const maxHeads = 1 << 16

func newConvert() *cobra.Command {
	var o pytorch.Options
	cmd := &cobra.Command{
		Use:   "convert FILE DIR",
		Short: "Turn a PyTorch checkpoint into config.json and model.safetensors",
		Long: `Turn a PyTorch checkpoint, the zip file of torch.save, into config.json and model.safetensors.

FILE is MAGE's .pth, Lightning's .ckpt of SDTT or MDLM, or a plain state dict of these. Element
types are kept. Nothing that the file names is called, and memory does not grow with its size.`,
		Args:    exactly(2, "a FILE to read and a DIR to write"),
		Example: `  unmask convert mage-vitb-1600.pth mage-b`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := untilStopped(cmd.Context())
			defer cancel()
			return convert(ctx, args[0], args[1], o)
		},
	}
	intFlag(cmd.Flags(), &o.Heads, "", param.Param{Name: "heads", Min: 1, Max: maxHeads, Zero: "what it says", Default: "0",
		Help: "attention heads, where the checkpoint does not say; 0 for what it says"})
	intFlag(cmd.Flags(), &o.DecoderHeads, "", param.Param{Name: "decoder-heads", Min: 1, Max: maxHeads, Zero: "what it says", Default: "0",
		Help: "the same, of the decoder"})
	cmd.Flags().BoolVar(&o.Overwrite, "overwrite", false, "replace a model in DIR")
	return cmd
}

func convert(ctx context.Context, file, dir string, o pytorch.Options) error {
	if err := pytorch.Convert(ctx, file, dir, o); err != nil {
		return err
	}
	return printLine(dir)
}
