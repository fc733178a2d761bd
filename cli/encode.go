package cli

import (
	"context"

	"github.com/spf13/cobra"

	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/media/images"
	"unmask/research/export"
)

type encodeFlags struct {
	deviceFlags
	out    string
	fit    string
	pixels string
	texts  string
}

// newEncode returns the command unmask encode.
func newEncode() *cobra.Command {
	f := &encodeFlags{}
	cmd := &cobra.Command{
		Use:   "encode IMAGE...",
		Short: "Encode images as codes, or texts as encoder states",
		Long: `Encode PNG or JPEG images as codes. They have the model's size, or any size with --fit.

The output is safetensors with codes I64 [B,D], the cells of the grid row by row. With --pixels the
images are a tensor, and the output has pixel_codes instead of codes. Colours are in 0..1, or in the
range that cases.json beside the file gives.

With --texts a text encoder reads ids. The model is CLIP, or one that draws from prompts. The output
has text_before_last F32 [B,T,W] (the states before the last layer), text_last and text_pooled of ids
or text_ids, null_before_last and so on of null_ids, and prompt_ids of the prompts in cases.json.`,
		Args:    func(_ *cobra.Command, args []string) error { return f.checkFlags(args) },
		Example: `  unmask encode --model mage-b one.png two.png --out codes.safetensors`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args)
		},
	}
	f.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&f.out, "out", "", "safetensors `FILE` to write")
	cmd.Flags().StringVar(&f.pixels, "pixels", "",
		"safetensors `FILE` with pixels F32 [B,3,H,W]")
	cmd.Flags().StringVar(&f.texts, "texts", "",
		"safetensors `FILE` with ids, text_ids or null_ids I64 [B,T]")
	flags.PictureFit(cmd.Flags(), &f.fit)
	cmd.MarkFlagRequired("out")
	return cmd
}

// checkFlags returns an error unless there is one kind of input: images, a tensor of them, or
// texts.
func (f *encodeFlags) checkFlags(args []string) error {
	switch {
	case f.pixels != "" && len(args) > 0:
		return usagef("--pixels and IMAGE files, want one of the two")
	case f.texts != "" && (len(args) > 0 || f.pixels != ""):
		return usagef("--texts and images, want one of the two")
	case len(args) == 0 && f.pixels == "" && f.texts == "":
		return usagef("no arguments, want IMAGE files")
	}
	return nil
}

// run writes the codes of images, or the states of texts.
func (f *encodeFlags) run(ctx context.Context, args []string) error {
	if err := images.CheckFit(f.fit); err != nil {
		return usagef("--%v", err)
	}
	if err := checkFile("--out", f.out); err != nil {
		return err
	}
	if f.texts != "" {
		return printWritten(f.encodeTexts(ctx, f.texts, f.out), f.out)
	}
	c, err := f.loadCodec(ctx)
	if err != nil {
		return err
	}
	if f.pixels != "" {
		return printWritten(export.WritePixelCodes(c, f.pixels, f.out), f.out)
	}
	p := terminal.NewProgress("images", int64(len(args)))
	defer p.Close()
	return printWritten(export.WriteCodes(ctx, c, args, f.fit, f.out, func() { p.Add(1) }), f.out)
}

// newDecode returns the command unmask decode.
func newDecode() *cobra.Command {
	var d deviceFlags
	var codes, out string
	cmd := &cobra.Command{
		Use:   "decode",
		Short: "Decode codes to images",
		Long: `Decode codes to images.

The codes file is safetensors with codes I64 [B,D]. --out is a directory for 000000.png and so on, a
.png for one picture, or a .safetensors for images F32 [B,3,H,W]: red, green and blue in 0..1, or in
the range that cases.json beside the file gives, except where the network overshoots. A decoder that
also reads the prompt needs text_last F32 [B,T,W], the text encoder's last states.`,
		Args: noArgs,
		Example: `  unmask decode --codes codes.safetensors --out pictures
  unmask decode --model mage-b --codes codes.safetensors --out images.safetensors`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := wrapError("--out", export.CheckPicturesOutput(out)); err != nil {
				return err
			}
			c, err := d.loadCodec(cmd.Context())
			if err != nil {
				return err
			}
			return printWritten(export.DecodePictures(cmd.Context(), c, codes, out), out)
		},
	}
	d.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&codes, "codes", "", "safetensors `FILE` with codes I64 [B,D]")
	cmd.Flags().StringVar(&out, "out", "", "`DIR`, .png or .safetensors to write")
	cmd.MarkFlagRequired("codes")
	cmd.MarkFlagRequired("out")
	return cmd
}

// encodeTexts writes the text encoder's states of texts.
func (d *deviceFlags) encodeTexts(ctx context.Context, file, out string) error {
	o, err := d.loadOptions()
	if err != nil {
		return err
	}
	e, err := export.LoadTextEncoder(ctx, d.model, o)
	if err != nil {
		return refuseModelName(err)
	}
	return export.WriteTextStates(ctx, e, file, out)
}
