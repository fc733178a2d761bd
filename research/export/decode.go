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

// CheckPicturesOutput returns an error if Pictures cannot write to a name.
func CheckPicturesOutput(out string) error {
	switch info, err := os.Stat(out); {
	case strings.EqualFold(filepath.Ext(out), ".png"):
		return atomicfile.Check(out) // its directory is made
	case filepath.Ext(out) != "":
		return atomicfile.CheckPlace(out)
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is a %s, want a directory, or a name that ends in .png or .safetensors",
			out,
			atomicfile.Kind(info))
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
	if r.least, r.most, err = rangeOf(codesFile); err != nil {
		return err
	}
	err = weights.WriteFileStreams(out, []weights.Stream{{Name: "images", DType: weights.F32,
		Shape: []int{r.pictures, 3, height, width}, Open: opener(&parts{next: r.pixels})}}, nil)
	return cmp.Or(ctx.Err(), err)
}

// decodedReader returns the pictures of codes, one at a time.
type decodedReader struct {
	ctx      context.Context
	v        model.Codec
	pictures int
	codes    []int32   // codes left to decode
	colours  []float32 // [3, height, width] of one image
	text     []float32 // [images left, rows, width] for codecs that read the prompt; otherwise nil
	rows     int
	width    int
	least    float32 // value written for colour 0
	most     float32 // value written for colour 1
}

// readCodes reads and checks the codes of a file.
func readCodes(ctx context.Context, v model.Codec, codesFile string) (*decodedReader, error) {
	in, err := openInput(codesFile)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	codes, shape, err := in.ints("codes", 2)
	if err != nil {
		return nil, err
	}
	if shape[0] < 1 || shape[1] != codesOf(v) {
		return nil, fmt.Errorf("%s: codes has shape %v, want [B %d] with at least one image", codesFile,
			shape, codesOf(v))
	}
	for i, code := range codes {
		if code < 0 || int(code) >= v.Codes() {
			return nil, fmt.Errorf("%s: codes, element %d is %d, want 0 to %d", codesFile, i, code,
				v.Codes()-1)
		}
	}
	width, height := v.Size()
	r := &decodedReader{ctx: ctx, v: v, pictures: shape[0], codes: codes,
		colours: make([]float32, 3*width*height)}
	if in.has("text_last") {
		text, wide, err := in.floats("text_last", 3)
		if err != nil {
			return nil, err
		}
		if wide[0] != shape[0] {
			return nil, fmt.Errorf("%s: text_last has shape %v, want [%d T W] as there are images",
				codesFile, wide, shape[0])
		}
		r.text, r.rows, r.width = text, wide[1], wide[2]
	}
	return r, nil
}

// pixels returns the colours of the next picture.
func (r *decodedReader) pixels() ([]float32, error) {
	if len(r.codes) == 0 {
		return nil, io.EOF
	}
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	codes, prompt := r.next()
	if err := r.decode(codes, prompt); err != nil {
		return nil, err
	}
	for i, x := range r.colours {
		r.colours[i] = r.least + x*(r.most-r.least)
	}
	return r.colours, nil
}

// next returns the next picture's codes and, for codecs that need it, its prompt.
func (r *decodedReader) next() (codes []int32, prompt *model.Prompt) {
	n := codesOf(r.v)
	codes, r.codes = r.codes[:n], r.codes[n:]
	if r.text == nil {
		return codes, nil
	}
	n = r.rows * r.width
	prompt = &model.Prompt{Rows: r.rows, Width: r.width, States: r.text[:n], Final: r.text[:n]}
	r.text = r.text[n:]
	return codes, prompt
}

// decode computes a picture's colours.
func (r *decodedReader) decode(codes []int32, prompt *model.Prompt) error {
	if p, ok := r.v.(model.PromptCodec); ok && prompt != nil {
		return p.DecodeOf(r.colours, codes, prompt)
	}
	return r.v.Decode(r.colours, codes)
}

// writePNG writes the next picture.
func (r *decodedReader) writePNG(name string) (err error) {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	codes, prompt := r.next()
	var picture *image.NRGBA
	if p, ok := r.v.(model.PromptCodec); ok && prompt != nil {
		picture, err = p.ImageOf(codes, prompt)
	} else {
		picture, err = r.v.Image(codes)
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
