// Package paint makes pictures of codes and codes of pictures, and parts of pictures new:
// inpainting, outpainting, drawing again from a given picture, and films of all of it.
package paint

import (
	"errors"
	"fmt"
	"image"
	"slices"
	"sync"

	"unmask/media/images"
	"unmask/model"
)

// Pictures is the side of a model that makes and reads pictures. The codec, the network between
// codes and pictures, is loaded on first use. Methods may be called concurrently; they take turns.
type Pictures struct {
	// load returns the codec. It loads it in the first call.
	load func() (model.Codec, error)

	// mask is the token of a masked code.
	mask int32

	// turn is held while the codec computes: its working memory is that of one picture.
	turn sync.Mutex
}

// New returns the pictures of a model with a mask token. load opens the codec; it is called once,
// at the first use, because many runs need no pixels.
func New(load func() (model.Codec, error), mask int32) *Pictures {
	return &Pictures{load: sync.OnceValues(load), mask: mask}
}

// Codec returns the codec. It must not be used while another method of p runs. It is loaded when it
// is first needed; the error is that of loading it, here and in the other methods.
func (p *Pictures) Codec() (model.Codec, error) { return p.load() }

// Size returns a picture's width and height in pixels.
func (p *Pictures) Size() (width, height int, err error) {
	c, err := p.load()
	if err != nil {
		return 0, 0, err
	}
	width, height = c.Size()
	return width, height, nil
}

// place returns the placement of a picture of this size on the model's.
func (p *Pictures) place(picture image.Image, fit string) (images.Placement, error) {
	width, height, err := p.Size()
	if err != nil {
		return images.Placement{}, err
	}
	return images.Place(picture.Bounds().Size(), image.Pt(width, height), fit)
}

// Fit returns a picture at the model's size, opaque; see images.Place for fit. A fit that is
// unknown, or needed and not given, is an error.
func (p *Pictures) Fit(picture image.Image, fit string) (*image.NRGBA, error) {
	placement, err := p.place(picture, fit)
	if err != nil {
		return nil, err
	}
	return placement.Picture(picture), nil
}

// Image returns the picture of codes.
func (p *Pictures) Image(codes []int32) (*image.NRGBA, error) {
	return p.ConditionedImage(codes,
		nil)
}

// ConditionedImage returns the picture of codes that were drawn with a condition, nil for none:
// some decoders read the prompt too.
func (p *Pictures) ConditionedImage(codes []int32, condition *model.Condition) (*image.NRGBA,
	error) {
	c, err := p.load()
	if err != nil {
		return nil, err
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	if d, ok := c.(model.PromptCodec); ok && condition != nil {
		return d.ImageOf(codes, condition.Prompt)
	}
	return c.Image(codes)
}

// Encode returns the codes of a picture of the model's size. A codec without an encoder is an
// error.
func (p *Pictures) Encode(picture image.Image) ([]int32, error) {
	c, err := p.load()
	if err != nil {
		return nil, err
	}
	e, ok := c.(model.Encoder)
	if !ok {
		return nil, fmt.Errorf("the model makes pictures of codes but no codes of pictures")
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	return e.EncodeImage(picture)
}

// Cells returns the pixels of each position of the codes' grid, nil if codes have no place in the
// picture. A position outside the grid is an error.
func (p *Pictures) Cells(positions []int) ([]image.Rectangle, error) {
	c, err := p.load()
	if err != nil || len(c.Shape()) != 2 {
		return nil, err
	}
	cell := cellSize(c)
	rows := c.Shape()[0]
	columns := c.Shape()[1]
	list := make([]image.Rectangle, len(positions))
	for i, position := range positions {
		if position < 0 || position >= rows*columns {
			return nil, fmt.Errorf("position is %d, want 0 to %d", position, rows*columns-1)
		}
		corner := image.Pt(position%columns*cell.X, position/columns*cell.Y)
		list[i] = image.Rectangle{Min: corner, Max: corner.Add(cell)}
	}
	return list, nil
}

// gridCodec returns the codec, or an error if its codes have no place in the picture.
func (p *Pictures) gridCodec() (model.Codec, error) {
	c, err := p.load()
	if err == nil && len(c.Shape()) != 2 {
		err = errors.New("the model's codes have no place in the picture, want a grid of codes")
	}
	return c, err
}

// cellSize returns the size in pixels of one code's cell.
func cellSize(c model.Codec) image.Point {
	width, height := c.Size()
	return image.Pt(width/c.Shape()[1], height/c.Shape()[0])
}

// Fill replaces each masked code by the nearest open one, so that the codes can be decoded, and
// returns the positions that were masked.
func (p *Pictures) Fill(codes []int32) (filled []int32, masked []int, err error) {
	c, err := p.load()
	if err != nil {
		return nil, nil, err
	}
	columns := c.Shape()[len(c.Shape())-1]
	filled = slices.Clone(codes)
	var queue []int // open positions whose neighbours are not filled yet
	for i, code := range codes {
		if code == p.mask {
			masked = append(masked, i)
		} else {
			queue = append(queue, i)
		}
	}
	if len(queue) == 0 { // nothing is open, so every cell is hidden
		clear(filled)
		return filled, masked, nil
	}

	// Open codes spread to their neighbours in the order of the queue, so a nearer one comes first.
	for len(queue) > 0 {
		position := queue[0]
		queue = queue[1:]
		x := position % columns
		y := position / columns
		for _, d := range [4]image.Point{{X: 1}, {X: -1}, {Y: 1}, {Y: -1}} {
			neighbour := (y+d.Y)*columns + x + d.X
			inGrid := x+d.X >= 0 && x+d.X < columns && neighbour >= 0 && neighbour < len(filled)
			if inGrid && filled[neighbour] == p.mask {
				filled[neighbour] = filled[position]
				queue = append(queue, neighbour)
			}
		}
	}
	return filled, masked, nil
}
