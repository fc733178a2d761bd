package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/internal/fasta"
	"unmask/research/export"
)

// newLogits returns the command unmask logits.
func newLogits() *cobra.Command {
	var d deviceFlags
	var tokens, texts, out, inside string
	cmd := &cobra.Command{
		Use:   "logits",
		Short: "Write a model's raw logits for given tokens or texts",
		Long: `Write a model's raw logits for given tokens; for an exact model, log-probabilities.

--texts reads FASTA, or one text on each line such as SMILES (- is standard input), each of its own
length. Of text I, counted from 0, the output has I.tokens I64 [D], with the tokens that the model has
around a text, and I.logits F32 [D,V]; its metadata has the names of texts.

The file of --tokens is safetensors with tokens I64 [B,D]; the output has logits F32 [B,D,V], and
short_logits for short_tokens if the file has any. With partial_rows I64 [R] and partial_tokens
I64 [1,D] in the file, the output also has partial_logits F32 [1,R,V], from a full pass over the first
sequence of tokens and then a partial pass over those rows with partial_tokens in place; and
partial_exact_logits, from a full pass instead.

For conditional models the file has labels I64 [B] (classes), or text_before_last F32 [B,T,W] and
text_pooled F32 [B,W] (prompts) with null_before_last and null_pooled for the empty prompt and micro
F32 [B,N] for further numbers. The output then has logits_cond, logits_uncond and, with the guidance of
cases.json beside the file, logits_guided; for partial_rows and partial_tokens I64 [B,D] it has
partial_logits_cond and partial_exact_logits_cond.

Logits are the network's own. If they predict the next position, shifted_logits has them by the
position that they predict, and partial_positions I64 [P] are the positions of the partial pass: the
output has partial_shifted_logits F32 [1,P,V]. Models of block diffusion attend by blocks of block
I64 [1] positions if the file has it; bidirectional_logits are then without blocks.

--with adds what the network computes inside, for each block I from 0: hidden.I F32 [B,D,width] before
block I and after the last, attention.I F32 [B,heads,D,D], keys.I and values.I F32
[B,heads,D,headDim]. Networks that put a row for the class first have D+1 in place of D.
docs/inside.md has more, and how to read them from Python.`,
		Example: `  unmask logits --model DIR --tokens tokens.safetensors --out logits.safetensors
  unmask logits --model esm2_8m --texts heavy.fasta --out logits.safetensors
  unmask logits --tokens tokens.safetensors --out inside.safetensors --with hidden,attention,kv`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (tokens == "") == (texts == "") {
				return usagef("--tokens and --texts, want one of them")
			}
			return writeLogits(cmd.Context(), &d, tokens, texts, out, inside)
		},
	}
	d.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&tokens, "tokens", "", "safetensors `FILE` with tokens I64 [B,D]")
	cmd.Flags().StringVar(&texts, "texts", "", "`FILE` of texts, one a line, or FASTA")
	cmd.Flags().StringVar(&out, "out", "", "safetensors `FILE` to write")
	cmd.Flags().StringVar(&inside, "with", "", "also write a `LIST` of hidden, attention and kv, with commas")
	cmd.MarkFlagRequired("out")
	return cmd
}

// writeLogits writes the logits of tokens or of texts, with what the network computes inside by
// names.
func writeLogits(ctx context.Context, d *deviceFlags, tokens, texts, out, names string) (
	err error) {
	var inside []export.Quantity
	if names != "" {
		inside, err = export.ParseQuantities(names)
		if err != nil {
			return usagef("--%v", err)
		}
	}
	if err := checkFile("--out", out); err != nil {
		return err
	}
	var records []fasta.Record
	if texts != "" {
		records, err = readRecords(texts, false)
		if err != nil {
			return wrapError(texts, err)
		}
	}
	m, err := d.loadModel(ctx)
	if err != nil {
		return err
	}
	if texts != "" {
		return printWritten(textLogits(ctx, m, records, out, inside), out)
	}
	return printWritten(export.WriteLogits(ctx, m, tokens, out, inside...), out)
}

// textLogits writes the logits of records, all of which are read before the first pass.
func textLogits(ctx context.Context, m *unmask.Model, list []fasta.Record, out string,
	inside []export.Quantity) error {
	if m.Text == nil {
		return usagef("--texts with a %s, want a model of text", m.Info.Architecture)
	}
	names := make([]string, len(list))
	texts := make([][]int32, len(list))
	for i, r := range list {
		var err error
		names[i] = r.Name
		texts[i], err = m.Text.Tokens(r.Sequence)
		if err == nil && len(texts[i]) > m.Spec().Length() {
			err = fmt.Errorf("the text is %d tokens with those around it, want at most %d",
				len(texts[i]), m.Spec().Length())
		}
		if err != nil {
			return fmt.Errorf("text %d (%.40s): %w", i+1, r.Name, err)
		}
	}
	return export.WriteTextLogits(ctx, m, names, texts, out, inside...)
}
