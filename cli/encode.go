package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"io"
	"math"

	"github.com/spf13/cobra"

	"unmask/images"
	"unmask/model"
	"unmask/weights"
)

func newEncode() *cobra.Command {
	var d deviceFlags
	var out, fit, pixels string
	cmd := &cobra.Command{
		Use:   "encode IMAGE...",
		Short: "Write the codes of images",
		Long: `Write the codes of PNG or JPEG images of the model's size, or of any with --fit.

The output is safetensors with codes I64 [B,D], the grid's cells by rows. With --pixels the images
are a tensor, and the output has pixel_codes in place of codes.`,
		Args: func(_ *cobra.Command, args []string) error {
			if pixels != "" && len(args) > 0 {
				return usage("--pixels and IMAGE files, want one of the two")
			}
			if len(args) == 0 && pixels == "" {
				return usage("no arguments, wanted are IMAGE files")
			}
			return nil
		},
		Example: `  unmask encode --model mage-b one.png two.png --out codes.safetensors`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := untilStopped(cmd.Context())
			defer cancel()
			if err := checkFit(fit); err != nil {
				return err
			}
			if pixels != "" {
				return encodePixels(ctx, &d, pixels, out)
			}
			return encode(ctx, &d, args, out, fit)
		},
	}
	d.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&out, "out", "", "safetensors `FILE` to write")
	cmd.Flags().StringVar(&pixels, "pixels", "", "safetensors `FILE` with pixels F32 [B,3,H,W] in 0..1")
	fitFlag(cmd.Flags(), &fit)
	cmd.MarkFlagRequired("out")
	return cmd
}

func newDecode() *cobra.Command {
	var d deviceFlags
	var codes, out string
	cmd := &cobra.Command{
		Use:   "decode",
		Short: "Write the images of codes",
		Long: `Write the images of codes.

The codes file is safetensors with codes I64 [B,D]; the output has images F32 [B,3,H,W], red,
green and blue in 0..1 but for what the network overshoots. A decoder that reads the prompt too takes
text_last F32 [B,T,W], the text encoder's last states.`,
		Args:    noArgs,
		Example: `  unmask decode --model mage-b --codes codes.safetensors --out images.safetensors`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := untilStopped(cmd.Context())
			defer cancel()
			return decode(ctx, &d, codes, out)
		},
	}
	d.register(cmd.Flags(), "demo")
	cmd.Flags().StringVar(&codes, "codes", "", "safetensors `FILE` with codes I64 [B,D]")
	cmd.Flags().StringVar(&out, "out", "", "safetensors `FILE` to write")
	cmd.MarkFlagRequired("codes")
	cmd.MarkFlagRequired("out")
	return cmd
}

func encode(ctx context.Context, d *deviceFlags, files []string, out, fit string) error {
	if err := checkFile("--out", out); err != nil {
		return err
	}
	v, err := d.loadCodec(ctx)
	if err != nil {
		return err
	}
	e, ok := v.(model.Encoder)
	if !ok {
		return usage("--model %s makes pictures of codes but no codes of pictures", d.model)
	}
	p := newProgress("images", int64(len(files)))
	defer p.close()
	var data []byte
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		codes, err := encodeFile(e, name, fit)
		if err != nil {
			return err
		}
		for _, c := range codes {
			data = binary.LittleEndian.AppendUint64(data, uint64(c))
		}
		p.add(1)
	}
	return weights.WriteFile(out, []weights.Tensor{{Name: "codes", DType: weights.I64, Shape: []int{len(files), codesOf(v)}, Data: data}}, nil)
}

// encodePixels writes the codes of images in a tensor.
func encodePixels(ctx context.Context, d *deviceFlags, file, out string) error {
	if err := checkFile("--out", out); err != nil {
		return err
	}
	set, err := weights.Open(file)
	if err != nil {
		return err
	}
	defer set.Close()
	pixels, shape, err := floats(set, file, "pixels", 4)
	if err != nil {
		return err
	}
	v, err := d.loadCodec(ctx)
	if err != nil {
		return err
	}
	e, ok := v.(model.PixelEncoder)
	if !ok {
		return usage("--model %s makes no codes of pictures in a tensor", d.model)
	}
	if width, height := v.Size(); shape[0] < 1 || shape[1] != 3 || shape[2] != height || shape[3] != width {
		return fmt.Errorf("%s: pixels has shape %v, want [B 3 %d %d] with at least one image", file, shape, height, width)
	}
	codes := make([]int32, shape[0]*codesOf(v))
	if err := e.Encode(codes, pixels); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var data []byte
	for _, c := range codes {
		data = binary.LittleEndian.AppendUint64(data, uint64(c))
	}
	return weights.WriteFile(out, []weights.Tensor{{Name: "pixel_codes", DType: weights.I64, Shape: []int{shape[0], codesOf(v)}, Data: data}}, nil)
}

func decode(ctx context.Context, d *deviceFlags, codesFile, out string) error {
	if err := checkFile("--out", out); err != nil {
		return err
	}
	set, err := weights.Open(codesFile)
	if err != nil {
		return err
	}
	defer set.Close()
	codes, shape, err := ints(set, codesFile, "codes", 2)
	if err != nil {
		return err
	}
	v, err := d.loadCodec(ctx)
	if err != nil {
		return err
	}
	if shape[0] < 1 || shape[1] != codesOf(v) {
		return fmt.Errorf("%s: codes has shape %v, allowed is [B %d] with at least one image", codesFile, shape, codesOf(v))
	}
	for i, code := range codes {
		if code < 0 || int(code) >= v.Codes() {
			return fmt.Errorf("%s: codes, element %d is %d, allowed are 0..%d", codesFile, i, code, v.Codes()-1)
		}
	}
	width, height := v.Size()
	r := &decodedReader{ctx: ctx, v: v, codes: codes, colours: make([]float32, 3*width*height)}
	if _, ok := set.Get("text_last"); ok {
		text, wide, err := floats(set, codesFile, "text_last", 3)
		if err != nil {
			return err
		}
		if wide[0] != shape[0] {
			return fmt.Errorf("%s: text_last has shape %v, want [%d T W] as there are images", codesFile, wide, shape[0])
		}
		r.text, r.rows, r.width = text, wide[1], wide[2]
	}
	err = weights.WriteFileStreams(out, []weights.Stream{{Name: "images", DType: weights.F32,
		Shape: []int{shape[0], 3, height, width}, Open: opener(r)}}, nil)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// encodeFile returns the codes of a PNG or JPEG file, brought to the model's size.
func encodeFile(e model.Encoder, name, fit string) ([]int32, error) {
	m, err := images.Read(name)
	if err != nil {
		return nil, err
	}
	width, height := e.Size()
	p, err := images.Place(image.Pt(m.Width, m.Height), image.Pt(width, height), fit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, orFit(err))
	}
	codes, err := e.EncodeImage(p.Picture(m.NRGBA()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return codes, nil
}

// codesOf returns the number of a picture's codes.
func codesOf(c model.Codec) int { return model.Spec{Shape: c.Shape()}.Length() }

// decodedReader is the bytes of the images of codes, one at a time.
type decodedReader struct {
	ctx     context.Context
	v       model.Codec
	codes   []int32
	colours []float32 // [3, height, width] of one image
	text    []float32 // [images left, rows, width] for codecs that read the prompt; nil: none
	rows    int
	width   int
	bytes   []byte
	left    bytes.Reader
}

func (r *decodedReader) Read(p []byte) (int, error) {
	if r.left.Len() == 0 {
		if len(r.codes) == 0 {
			return 0, io.EOF
		}
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		n := codesOf(r.v)
		if err := r.decode(r.codes[:n]); err != nil {
			return 0, err
		}
		r.codes, r.bytes = r.codes[n:], r.bytes[:0]
		for _, x := range r.colours {
			r.bytes = binary.LittleEndian.AppendUint32(r.bytes, math.Float32bits(x))
		}
		r.left.Reset(r.bytes)
	}
	return r.left.Read(p)
}

// decode computes the next image.
func (r *decodedReader) decode(codes []int32) error {
	p, ok := r.v.(model.PromptCodec)
	if !ok || r.text == nil {
		return r.v.Decode(r.colours, codes)
	}
	n := r.rows * r.width
	prompt := &model.Prompt{Rows: r.rows, Width: r.width, States: r.text[:n], Final: r.text[:n]}
	r.text = r.text[n:]
	return p.DecodeOf(r.colours, codes, prompt)
}
