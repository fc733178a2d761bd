package cli

import (
	"context"

	"github.com/spf13/cobra"

	"unmask/cli/terminal"
	"unmask/research/export"
)

func newLogits() *cobra.Command {
	var d deviceFlags
	var tokens, out, with string
	cmd := &cobra.Command{
		Use:   "logits",
		Short: "Write a model's raw logits for given tokens",
		Long: `Write a model's raw logits for given tokens; for an exact model, log-probabilities.

The tokens file is safetensors with tokens I64 [B,D]; the output has logits F32 [B,D,V], and
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
  unmask logits --tokens tokens.safetensors --out inside.safetensors --with hidden,attention,kv`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := terminal.UntilStopped(cmd.Context())
			defer cancel()
			return writeLogits(ctx, &d, tokens, out, with)
		},
	}
	d.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&tokens, "tokens", "", "safetensors `FILE` with tokens I64 [B,D]")
	cmd.Flags().StringVar(&out, "out", "", "safetensors `FILE` to write")
	cmd.Flags().StringVar(&with, "with", "", "also write a `LIST` of hidden, attention and kv, with commas")
	cmd.MarkFlagRequired("tokens")
	cmd.MarkFlagRequired("out")
	return cmd
}

func writeLogits(ctx context.Context, d *deviceFlags, tokens, out, with string) error {
	var inside []export.Inside
	if with != "" {
		var err error
		if inside, err = export.ParseInside(with); err != nil {
			return usage("--%v", err)
		}
	}
	if err := checkFile("--out", out); err != nil {
		return err
	}
	m, err := d.load(ctx)
	if err != nil {
		return err
	}
	return wrote(export.Logits(ctx, m, tokens, out, inside...), out)
}
