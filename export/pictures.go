package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"math"

	"unmask/images"
	"unmask/model"
	"unmask/weights"
)

// Codes writes the codes of PNG or JPEG files to the safetensors file out: codes I64 [B,D], the
// grid's cells by rows. Pictures of another size than the model's are brought to it as images.Place
// does for fit. It calls done, which may be nil, after each file.
func Codes(ctx context.Context, c model.Codec, files []string, fit, out string,
	done func()) error {
	e, ok := c.(model.Encoder)
	if !ok {
		return errors.New("the model makes pictures of codes but no codes of pictures")
	}
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
		if done != nil {
			done()
		}
	}
	return weights.WriteFile(out,
		[]weights.Tensor{{Name: "codes", DType: weights.I64, Shape: []int{len(files), codesOf(e)},
			Data: data}}, nil)
}

// PixelCodes writes the codes of the pictures in a safetensors file, pixels F32 [B,3,H,W], to
// another: pixel_codes I64 [B,D]. Colours are in 0..1, or in the range of cases.json beside the
// file.
func PixelCodes(c model.Codec, file, out string) error {
	e, ok := c.(model.PixelEncoder)
	if !ok {
		return errors.New("the model makes no codes of pictures in a tensor")
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
	if width, height := e.Size(); shape[0] < 1 || shape[1] != 3 || shape[2] != height ||
		shape[3] != width {
		return fmt.Errorf("%s: pixels has shape %v, want [B 3 %d %d] with at least one image", file,
			shape, height, width)
	}
	least, most, err := rangeOf(file)
	if err != nil {
		return err
	}
	for i, x := range pixels {
		pixels[i] = (x - least) / (most - least)
	}
	codes := make([]int32, shape[0]*codesOf(e))
	if err := e.Encode(codes, pixels); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var data []byte
	for _, c := range codes {
		data = binary.LittleEndian.AppendUint64(data, uint64(c))
	}
	return weights.WriteFile(out,
		[]weights.Tensor{{Name: "pixel_codes", DType: weights.I64, Shape: []int{shape[0], codesOf(e)},
			Data: data}}, nil)
}

// Pictures writes the pictures of the codes I64 [B,D] in a safetensors file to another: images F32
// [B,3,H,W], red, green and blue in 0..1, or in the range of cases.json beside the file, but for
// what the network overshoots. A decoder that reads the prompt too takes text_last F32 [B,T,W], the
// text encoder's last states.
func Pictures(ctx context.Context, v model.Codec, codesFile, out string) error {
	set, err := weights.Open(codesFile)
	if err != nil {
		return err
	}
	defer set.Close()
	codes, shape, err := ints(set, codesFile, "codes", 2)
	if err != nil {
		return err
	}
	if shape[0] < 1 || shape[1] != codesOf(v) {
		return fmt.Errorf("%s: codes has shape %v, want [B %d] with at least one image", codesFile, shape,
			codesOf(v))
	}
	for i, code := range codes {
		if code < 0 || int(code) >= v.Codes() {
			return fmt.Errorf("%s: codes, element %d is %d, want 0 to %d", codesFile, i, code, v.Codes()-1)
		}
	}
	width, height := v.Size()
	r := &decodedReader{ctx: ctx, v: v, codes: codes, colours: make([]float32, 3*width*height)}
	if r.least, r.most, err = rangeOf(codesFile); err != nil {
		return err
	}
	if _, ok := set.Get("text_last"); ok {
		text, wide, err := floats(set, codesFile, "text_last", 3)
		if err != nil {
			return err
		}
		if wide[0] != shape[0] {
			return fmt.Errorf("%s: text_last has shape %v, want [%d T W] as there are images", codesFile,
				wide, shape[0])
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
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	codes, err := e.EncodeImage(p.Picture(m.NRGBA()))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return codes, nil
}

// rangeOf returns what colours of 0 and 1 are in a file, by cases.json beside it.
func rangeOf(file string) (least, most float32, err error) {
	list := casesOf(file).Range
	if list == nil {
		return 0, 1, nil
	}
	if len(list) != 2 || !(list[0] < list[1]) || list[0] < -maxColour || list[1] > maxColour {
		return 0, 0, fmt.Errorf("%s: range of cases.json is %v, want two numbers, the smaller first, of "+
			"-%d to %d", file, list, maxColour, maxColour)
	}
	return float32(list[0]), float32(list[1]), nil
}

// maxColour bounds a range of colours.
const maxColour = 255

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
	least   float32 // what 0 is written as
	most    float32 // what 1 is written as
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
			x = r.least + x*(r.most-r.least)
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
