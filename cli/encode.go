package cli

import (
	"context"

	"github.com/spf13/cobra"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/images"
	"unmask/research/export"
)

type encodeFlags struct {
	deviceFlags
	out, fit string
}

func newEncode() *cobra.Command {
	f := &encodeFlags{}
	cmd := &cobra.Command{
		Use:   "encode IMAGE...",
		Short: "Encode images as codes",
		Long: `Encode PNG or JPEG images as codes. They have the model's size, or any size with --fit.

The output is safetensors with codes I64 [B,D], the cells of the grid row by row.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("no arguments, want IMAGE files")
			}
			return nil
		},
		Example: `  unmask encode --model mage-b one.png two.png --out codes.safetensors`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args)
		},
	}
	f.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&f.out, "out", "", "safetensors `FILE` to write")
	flags.Fit(cmd.Flags(), &f.fit)
	cmd.MarkFlagRequired("out")
	return cmd
}

func (f *encodeFlags) run(ctx context.Context, args []string) error {
	if err := images.CheckFit(f.fit); err != nil {
		return usage("--%v", err)
	}
	if err := checkFile("--out", f.out); err != nil {
		return err
	}
	c, err := f.loadCodec(ctx)
	if err != nil {
		return err
	}
	p := terminal.NewProgress("images", int64(len(args)))
	defer p.Close()
	return wrote(export.Codes(ctx, c, args, f.fit, f.out, func() { p.Add(1) }), f.out)
}

func newDecode() *cobra.Command {
	var d deviceFlags
	var codes, out string
	cmd := &cobra.Command{
		Use:   "decode",
		Short: "Decode codes to images",
		Long: `Decode codes to images.

The codes file is safetensors with codes I64 [B,D]. --out is a directory for 000000.png and so on, or
a .png for one picture.`,
		Args:    noArgs,
		Example: `  unmask decode --codes codes.safetensors --out pictures`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wrap("--out", export.CheckPictures(out)); err != nil {
				return err
			}
			c, err := d.loadCodec(cmd.Context())
			if err != nil {
				return err
			}
			return wrote(export.Pictures(cmd.Context(), c, codes, out), out)
		},
	}
	d.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&codes, "codes", "", "safetensors `FILE` with codes I64 [B,D]")
	cmd.Flags().StringVar(&out, "out", "", "`DIR` or .png to write")
	cmd.MarkFlagRequired("codes")
	cmd.MarkFlagRequired("out")
	return cmd
}
