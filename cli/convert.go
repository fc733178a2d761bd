package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"unmask/catalog"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/internal/atomicfile"
	"unmask/param"
	"unmask/research/judges"
	"unmask/weights/gguf"
	"unmask/weights/pytorch"
)

const maxHeads = 1 << 16

// newConvert returns the command unmask convert.
func newConvert() *cobra.Command {
	var o pytorch.Options
	var quantize string
	cmd := &cobra.Command{
		Use: "convert FILE DIR | convert DIR OUT.gguf --quantize TYPE",
		Short: "Turn a PyTorch checkpoint into config.json and model.safetensors, or a folder into a " +
			"GGUF file",
		Long: `Turn a PyTorch checkpoint, a file of torch.save, into config.json and model.safetensors.

FILE is MAGE's .pth, Lightning's .ckpt of SDTT or MDLM, fairseq's RoBERTa with its dict.txt beside it,
or a plain state dict of these. It may be a folder with config.json and pytorch_model.bin, or its
shards, of any network: then the vocabulary is copied too, and what sentence-transformers does after
the network. Of a file with averaged weights (EMA) too these are taken, as authors run them, and
config.json says so; averages in a file of their own are converted by its name. Element types are kept. Nothing that the file names is called, and memory does not grow.

With --quantize, DIR, which may be org/name[@revision][:folder/], is a LLaDA, Dream, DreamOn, SDAR,
WeDLM, Nemotron-Labs-Diffusion, LFM2.5 encoder or conversion of dLLM's (a2d) as their authors publish
it, and OUT.gguf is written as llama.cpp's converter would: q8_0 has 8.5 bits a weight, q4_k_m about
4.9 (the head and half of two projections have 6.6). The tokenizer and the chat template go into the
file; Nemotron-Labs-Diffusion's adapter for drafts does not, so that fewer drafts are right. A note
says where llama.cpp would take the file for a model that writes from left to right.`,
		Args: exactArgs(2, "a FILE to read and a DIR to write"),
		Example: `  unmask convert mage-vitb-1600.pth mage-b
  unmask convert LLaDA-8B-Instruct llada.gguf --quantize q4_k_m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if quantize != "" || gguf.IsFileName(args[1]) {
				types := strings.Join(gguf.Mixtures(), " or ")
				switch {
				case cmd.Flags().Changed("weights"):
					return usagef("--weights has no effect with --quantize, want a checkpoint of PyTorch")
				case quantize == "":
					return usagef("--quantize is missing, want %s", types)
				case !slices.Contains(gguf.Mixtures(), quantize):
					return usagef("--quantize is %q, want %s", quantize, types)
				}
				if _, err := os.Stat(args[1]); err == nil && !o.Overwrite {
					return fmt.Errorf("%s is there already, want a new file, or --overwrite", args[1])
				}
				// Where it goes is checked before gigabytes are downloaded.
				if err := atomicfile.CheckPlace(args[1]); err != nil {
					return err
				}
				dir, err := catalog.Locate(cmd.Context(), args[0], terminal.DownloadProgress())
				if err != nil {
					return refuseModelName(err)
				}
				err = judges.ConvertToGGUF(cmd.Context(), dir, args[1], quantize)
				if err == nil {
					err = noteForReaders(args[1])
				}
				return printWritten(err, args[1])
			}
			o.Logf = terminal.Logf
			return printWritten(pytorch.Convert(cmd.Context(), args[0], args[1], o), args[1])
		},
	}
	flags.Int(cmd.Flags(), &o.Heads,
		param.Param{
			Name:    "heads",
			Min:     1,
			Max:     maxHeads,
			Zero:    "what it says",
			Default: "0",
			Help:    "attention heads, if the checkpoint does not say; 0 for the number in the checkpoint",
		})
	flags.Int(cmd.Flags(), &o.DecoderHeads,
		param.Param{
			Name:    "decoder-heads",
			Min:     1,
			Max:     maxHeads,
			Zero:    "what it says",
			Default: "0",
			Help:    "like --heads, for the decoder",
		})
	cmd.Flags().StringVar(&o.Weights, "weights", "", "of a checkpoint with two sets of weights: ema, "+
		"the moving average (default), or raw")
	cmd.Flags().BoolVar(&o.Overwrite, "overwrite", false, "replace a model in DIR, or OUT.gguf")
	cmd.Flags().StringVar(&quantize, "quantize", "", "write a GGUF file of this type: q8_0 or q4_k_m")
	return cmd
}

// noteForReaders prints what other programs would make of a GGUF file, if that is something else.
func noteForReaders(name string) error {
	f, err := gguf.Open(name)
	if err != nil {
		return err
	}
	defer f.Set.Close()
	if note := f.NoteForReaders(); note != "" {
		terminal.Logf("%s", note)
	}
	return nil
}
