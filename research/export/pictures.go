package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"

	"unmask/images"
	"unmask/internal/atomicfile"
	"unmask/model"
	"unmask/weights"
)

// Codes encodes PNG or JPEG files and writes codes I64 [B,D], row by row, to the safetensors file
// out. Pictures of other sizes are fitted to the model's as fit says, see images.Place. done, which
// may be nil, is called after each file.
func Codes(ctx context.Context, c model.Codec, files []string, fit, out string,
	done func()) error {
	e, ok := c.(model.Encoder)
	if !ok {
		return errors.New("the model makes pictures of codes but no codes of pictures")
	}
	var all []int32
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		codes, err := encodeFile(e, name, fit)
		if err != nil {
			return err
		}
		all = append(all, codes...)
		if done != nil {
			done()
		}
	}
	return weights.WriteFile(out,
		[]weights.Tensor{{Name: "codes", DType: weights.I64, Shape: []int{len(files), codesOf(e)},
			Data: longs(all)}}, nil)
}

// encodeFile returns the codes of a PNG or JPEG file, fitted to the model's size.
func encodeFile(e model.Encoder, name, fit string) ([]int32, error) {
	m, err := images.Read(name)
	if err != nil {
		return nil, err
	}
	width, height := e.Size()
	p, err := images.Place(image.Pt(m.Width, m.Height), image.Pt(width, height), fit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	codes, err := e.EncodeImage(p.Picture(m.NRGBA()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return codes, nil
}

// codesOf returns the number of codes of a picture.
func codesOf(c model.Codec) int { return model.Spec{Shape: c.Shape()}.Length() }

// isPNG reports whether a name is that of one picture.
func isPNG(name string) bool { return strings.EqualFold(filepath.Ext(name), ".png") }

// CheckPictures returns an error if Pictures cannot write to a name.
func CheckPictures(out string) error {
	if isPNG(out) {
		return atomicfile.Check(out) // its directory is made
	}
	if ext := filepath.Ext(out); ext != "" {
		return fmt.Errorf("%s ends in %s, want a directory, or a name that ends in .png", out, ext)
	}
	if info, err := os.Stat(out); err == nil && !info.IsDir() {
		return fmt.Errorf("%s is a %s, want a directory, or a name that ends in .png", out,
			atomicfile.Kind(info))
	}
	return nil
}

// Pictures decodes the codes I64 [B,D] in a safetensors file and writes the pictures to out. A name
// that ends in .png is for one picture; any other name is a directory for 000000.png and so on.
func Pictures(ctx context.Context, c model.Codec, codesFile, out string) error {
	if err := CheckPictures(out); err != nil {
		return err
	}
	in, err := openInput(codesFile)
	if err != nil {
		return err
	}
	defer in.Close()
	codes, shape, err := in.ints("codes", 2)
	if err != nil {
		return err
	}
	n := codesOf(c)
	switch {
	case shape[0] < 1 || shape[1] != n:
		return fmt.Errorf("%s: codes has shape %v, want [B %d] with at least one image", codesFile,
			shape, n)
	case isPNG(out) && shape[0] != 1:
		return fmt.Errorf("%s has %d pictures, want 1 for %s, or a directory", codesFile, shape[0], out)
	}
	for i, code := range codes {
		if code < 0 || int(code) >= c.Codes() {
			return fmt.Errorf("%s: codes, element %d is %d, want 0 to %d", codesFile, i, code, c.Codes()-1)
		}
	}
	for i := range shape[0] {
		if err := ctx.Err(); err != nil {
			return err
		}
		picture, err := c.Image(codes[i*n:][:n])
		if err != nil {
			return err
		}
		var data bytes.Buffer
		if err := png.Encode(&data, picture); err != nil {
			return err
		}
		name := out
		if !isPNG(out) {
			name = filepath.Join(out, fmt.Sprintf("%06d.png", i))
		}
		if err := atomicfile.Put(name, data.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
