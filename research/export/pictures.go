package export

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"

	"unmask/media/images"
	"unmask/model"
	"unmask/param"
	"unmask/weights"
)

// WriteCodes encodes PNG or JPEG files and writes codes I64 [B,D], row by row, to the safetensors
// file out. Pictures of other sizes are fitted to the model's as fit says, see images.Place.
// onPicture, which may be nil, is called after each file.
func WriteCodes(ctx context.Context, c model.Codec, files []string, fit, out string,
	onPicture func()) error {
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
		if onPicture != nil {
			onPicture()
		}
	}
	return weights.WriteFile(out,
		[]weights.Tensor{newInt64Tensor("codes", all, len(files), codeCount(e))}, nil)
}

// WritePixelCodes encodes the pictures in a safetensors file, pixels F32 [B,3,H,W], and writes
// pixel_codes I64 [B,D] to another. Colours are 0 to 1, or in the range of cases.json beside the
// file.
func WritePixelCodes(c model.Codec, file, out string) error {
	e, ok := c.(model.PixelEncoder)
	if !ok {
		return errors.New("the model makes no codes of pictures in a tensor")
	}
	in, err := openInput(file)
	if err != nil {
		return err
	}
	defer in.Close()
	pixels, shape, err := in.readFloats("pixels", 4)
	if err != nil {
		return err
	}
	if width, height := e.Size(); shape[0] < 1 || shape[1] != 3 || shape[2] != height ||
		shape[3] != width {
		return fmt.Errorf("%s: pixels has shape %v, want [B 3 %d %d] with at least one image", file,
			shape, height, width)
	}
	darkest, brightest, err := readColourRange(file)
	if err != nil {
		return err
	}
	for i, x := range pixels {
		pixels[i] = (x - darkest) / (brightest - darkest)
	}
	codes := make([]int32, shape[0]*codeCount(e))
	if err := e.Encode(codes, pixels); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return weights.WriteFile(out,
		[]weights.Tensor{newInt64Tensor("pixel_codes", codes, shape[0], codeCount(e))}, nil)
}

// newInt64Tensor returns a tensor I64.
func newInt64Tensor(name string, values []int32, shape ...int) weights.Tensor {
	data := make([]byte, 0, 8*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint64(data, uint64(v))
	}
	return weights.Tensor{Name: name, DType: weights.I64, Shape: shape, Data: data}
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
	return codes, param.AtPlace(name, err)
}

// readColourRange returns the values that mean colours 0 and 1 in a file, from cases.json beside
// it.
func readColourRange(file string) (darkest, brightest float32, err error) {
	list := readCases(file).Range
	if list == nil {
		return 0, 1, nil
	}
	if len(list) != 2 || !(list[0] < list[1]) || list[0] < -maxColour || list[1] > maxColour {
		return 0, 0, fmt.Errorf("%s: range of cases.json is %v, want two numbers, the smaller first, of "+
			"-%d to %d", file, list, maxColour, maxColour)
	}
	return float32(list[0]), float32(list[1]), nil
}

// maxColour is the largest value in a range of colours.
const maxColour = 255

// codeCount returns the number of codes of a picture.
func codeCount(c model.Codec) int { return model.Spec{Shape: c.Shape()}.Length() }
