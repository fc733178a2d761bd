package export

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/model"
	"unmask/weights"
)

// CheckPicturesOutput returns an error if DecodePictures cannot write to a name, so that a command
// refuses it before it loads a model.
func CheckPicturesOutput(out string) error {
	ext := filepath.Ext(out)
	if strings.EqualFold(ext, ".png") {
		return atomicfile.Check(out) // its directory is made
	}
	if ext != "" {
		return atomicfile.CheckPlace(out)
	}
	info, err := os.Stat(out)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is a %s, want a directory, or a name that ends in .png or .safetensors",
			out, atomicfile.Kind(info))
	}
	return nil
}

// DecodePictures decodes the codes I64 [B,D] in a safetensors file and writes the pictures to out.
// A name that ends in .png is for one picture. A name without an ending is a directory for
// 000000.png and so on. Any other name is a safetensors file with images F32 [B,3,H,W]: red, green
// and blue, 0 to 1 or in the range of cases.json beside the codes, or a little outside where the
// network overshoots. A decoder that reads the prompt too needs text_last F32 [B,T,W], the text
// encoder's last states.
func DecodePictures(ctx context.Context, v model.Codec, codesFile, out string) error {
	if err := CheckPicturesOutput(out); err != nil {
		return err
	}
	r, err := readCodes(ctx, v, codesFile)
	if err != nil {
		return err
	}
	switch ext := filepath.Ext(out); {
	case strings.EqualFold(ext, ".png") && r.pictures != 1:
		return fmt.Errorf("%s has %d pictures, want 1 for %s, or a directory", codesFile, r.pictures, out)
	case strings.EqualFold(ext, ".png"):
		return r.writePNG(out)
	case ext == "":
		for i := range r.pictures {
			if err := r.writePNG(filepath.Join(out, fmt.Sprintf("%06d.png", i))); err != nil {
				return err
			}
		}
		return nil
	}
	width, height := v.Size()
	if r.black, r.white, err = readColourRange(codesFile); err != nil {
		return err
	}
	err = weights.WriteFileStreams(out, []weights.Stream{{
		Name:  "images",
		DType: weights.F32,
		Shape: []int{r.pictures, 3, height, width},
		Open:  opener(&partReader{next: r.nextPixels}),
	}}, nil)
	return cmp.Or(ctx.Err(), err)
}

// decodedReader returns the pictures of codes, one at a time: memory does not grow with their
// number.
type decodedReader struct {
	ctx      context.Context
	codec    model.Codec
	pictures int

	// codes are those of the pictures that are left to decode.
	codes []int32

	// colours are those of one picture, [3, height, width].
	colours []float32

	// text [pictures left, rows, width] is for codecs that read the prompt too; otherwise nil.
	text  []float32
	rows  int
	width int

	black float32 // value written for colour 0
	white float32 // value written for colour 1
}

// readCodes reads and checks the codes of a file.
func readCodes(ctx context.Context, v model.Codec, codesFile string) (*decodedReader, error) {
	in, err := openInput(codesFile)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	codes, shape, err := in.readInts("codes", 2)
	if err != nil {
		return nil, err
	}
	if shape[0] < 1 || shape[1] != codeCount(v) {
		return nil, fmt.Errorf("%s: codes has shape %v, want [B %d] with at least one image", codesFile,
			shape, codeCount(v))
	}
	for i, code := range codes {
		if code < 0 || int(code) >= v.Codes() {
			return nil, fmt.Errorf("%s: codes, element %d is %d, want 0 to %d", codesFile, i, code,
				v.Codes()-1)
		}
	}
	width, height := v.Size()
	r := &decodedReader{
		ctx:      ctx,
		codec:    v,
		pictures: shape[0],
		codes:    codes,
		colours:  make([]float32, 3*width*height),
	}
	if in.hasTensor("text_last") {
		text, textShape, err := in.readFloats("text_last", 3)
		if err != nil {
			return nil, err
		}
		if textShape[0] != shape[0] {
			return nil, fmt.Errorf("%s: text_last has shape %v, want [%d T W] as there are images",
				codesFile, textShape, shape[0])
		}
		r.text = text
		r.rows = textShape[1]
		r.width = textShape[2]
	}
	return r, nil
}

// nextPixels returns the colours of the next picture.
func (r *decodedReader) nextPixels() ([]float32, error) {
	if len(r.codes) == 0 {
		return nil, io.EOF
	}
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	codes, prompt := r.nextCodes()
	if err := r.decode(codes, prompt); err != nil {
		return nil, err
	}
	for i, x := range r.colours {
		r.colours[i] = r.black + x*(r.white-r.black)
	}
	return r.colours, nil
}

// nextCodes returns the next picture's codes and, for codecs that need it, its prompt.
func (r *decodedReader) nextCodes() (codes []int32, prompt *model.Prompt) {
	n := codeCount(r.codec)
	codes = r.codes[:n]
	r.codes = r.codes[n:]
	if r.text == nil {
		return codes, nil
	}
	states := r.text[:r.rows*r.width]
	r.text = r.text[r.rows*r.width:]
	return codes, &model.Prompt{Rows: r.rows, Width: r.width, States: states, Final: states}
}

// decode computes a picture's colours.
func (r *decodedReader) decode(codes []int32, prompt *model.Prompt) error {
	if p, ok := r.codec.(model.PromptCodec); ok && prompt != nil {
		return p.DecodeOf(r.colours, codes, prompt)
	}
	return r.codec.Decode(r.colours, codes)
}

// writePNG writes the next picture.
func (r *decodedReader) writePNG(name string) (err error) {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	codes, prompt := r.nextCodes()
	var picture *image.NRGBA
	if p, ok := r.codec.(model.PromptCodec); ok && prompt != nil {
		picture, err = p.ImageOf(codes, prompt)
	} else {
		picture, err = r.codec.Image(codes)
	}
	if err != nil {
		return err
	}
	var data bytes.Buffer
	if err := png.Encode(&data, picture); err != nil {
		return err
	}
	return atomicfile.Put(name, data.Bytes())
}
