package paint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"slices"

	"unmask/media/images"
	"unmask/param"
)

// Inpainting is a picture with a part of it to be made new.
type Inpainting struct {
	Picture *image.NRGBA // of the model's size
	Hole    *image.NRGBA // of the same size, white where the picture is made new
	Tokens  []int32      // known tokens of the run that makes it

	pictures *Pictures
	codes    []int32 // of the whole picture
}

// Inpaint reads a picture of any size. The part to be made new is inside the box or where the mask,
// of the picture's size, is white or transparent; without both it is where the picture is
// transparent. Margins are new too, see images.Place for fit. That nothing is new is refused.
func (p *Pictures) Inpaint(picture, mask image.Image, box image.Rectangle, fit string) (*Inpainting,
	error) {
	hole, err := images.HoleMask(picture, mask, box)
	if err != nil {
		return nil, err
	}
	at, err := p.place(picture, fit)
	if err != nil {
		return nil, err
	}
	in := &Inpainting{Picture: at.Picture(picture), pictures: p}
	in.Hole = image.NewNRGBA(in.Picture.Rect)
	draw.Draw(in.Hole, in.Hole.Rect, at.Mask(hole), image.Point{}, draw.Src)
	if in.codes, err = p.Encode(in.Picture); err != nil {
		return nil, err
	}
	in.Tokens, err = p.masked(slices.Clone(in.codes), in.Hole)
	if err == nil && !slices.Contains(in.Tokens, p.mask) {
		where := "is transparent, want a mask or a box"
		if mask != nil || !box.Empty() {
			where = "at the model's size is in the box, or transparent or white in the mask, want some"
		}
		err = param.Refuse("mask", param.NoHole, "no part of the picture %s", where)
	}
	return in, err
}

// RoundTripLoss returns the loss of the codes in what is kept, see RoundTrip.
func (in *Inpainting) RoundTripLoss() (float64, error) {
	return in.pictures.lost(in.codes, in.Picture, in.Hole)
}

// Paste puts what is kept back into a picture that was made, see Pictures.Paste.
func (in *Inpainting) Paste(made *image.NRGBA) error {
	return in.pictures.Paste(made, in.Picture, in.Hole)
}

// Hash returns a text that differs for other pixels.
func (in *Inpainting) Hash() string {
	hash := sha256.New()
	hash.Write(in.Picture.Pix)
	hash.Write(in.Hole.Pix)
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// Mask returns the tokens [height*width] of a run that makes a picture new where hole is white:
// the picture's codes and, in each cell of the grid that a white pixel touches, a mask. Both images
// have the model's size.
func (p *Pictures) Mask(picture, hole image.Image) ([]int32, error) {
	codes, err := p.Encode(picture)
	if err != nil {
		return nil, err
	}
	return p.masked(codes, hole)
}

// masked masks the codes of a picture in each cell that a white pixel of hole touches.
func (p *Pictures) masked(codes []int32, hole image.Image) ([]int32, error) {
	c, err := p.grid()
	if err != nil {
		return nil, err
	}
	width, height := c.Size()
	r := hole.Bounds()
	if r.Dx() != width || r.Dy() != height {
		return nil, fmt.Errorf("the mask is %d x %d pixels, want %d x %d", r.Dx(), r.Dy(), width, height)
	}
	cell, columns := cellOf(c), c.Shape()[1]
	for y := range height {
		for x := range width {
			if IsWhite(hole.At(r.Min.X+x, r.Min.Y+y)) {
				codes[y/cell.Y*columns+x/cell.X] = p.mask
			}
		}
	}
	return codes, nil
}

// RoundTripLoss returns how much of a picture the model's codes lose: the mean absolute
// difference, 0 to 255, of the colours of the pixels that hole keeps from those of their decoded
// codes.
func (p *Pictures) RoundTripLoss(picture, hole image.Image) (float64, error) {
	codes, err := p.Encode(picture)
	if err != nil {
		return 0, err
	}
	return p.lost(codes, picture, hole)
}

// lost is RoundTrip for the codes of the picture.
func (p *Pictures) lost(codes []int32, picture, hole image.Image) (float64, error) {
	back, err := p.Image(codes)
	if err != nil {
		return 0, err
	}
	from, over := picture.Bounds().Min, hole.Bounds().Min
	sum, n := 0, 0
	for y := range back.Rect.Dy() {
		for x := range back.Rect.Dx() {
			if IsWhite(hole.At(over.X+x, over.Y+y)) {
				continue
			}
			a, b := opaque(picture.At(from.X+x, from.Y+y)), back.NRGBAAt(x, y)
			for _, d := range [3]int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
				sum += max(d, -d)
			}
			n += 3
		}
	}
	return float64(sum) / float64(max(n, 1)), nil
}

// Paste copies the pixels that hole keeps from picture into made; all three have one size. Within
// one cell of the hole's edge the two are mixed, so that no seam shows.
func (p *Pictures) Paste(made *image.NRGBA, picture, hole image.Image) error {
	c, err := p.load()
	if err != nil {
		return err
	}
	width, height := c.Size()
	for _, p := range []image.Image{made, picture, hole} {
		if r := p.Bounds(); r.Dx() != width || r.Dy() != height {
			return fmt.Errorf("a picture is %d x %d pixels, want %d x %d", r.Dx(), r.Dy(), width, height)
		}
	}
	fade := 1
	if len(c.Shape()) == 2 {
		fade = max(cellOf(c).X, cellOf(c).Y)
	}
	from := picture.Bounds().Min
	for i, d := range distances(hole) {
		x, y := i%width, i/width
		kept := min(d, fade)
		a, b := opaque(picture.At(from.X+x, from.Y+y)), made.NRGBAAt(made.Rect.Min.X+x, made.Rect.Min.Y+y)
		mix := func(a, b uint8) uint8 { return uint8((int(a)*kept + int(b)*(fade-kept) + fade/2) / fade) }
		made.SetNRGBA(made.Rect.Min.X+x, made.Rect.Min.Y+y,
			color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255})
	}
	return nil
}

// distances returns each pixel's distance from the nearest white pixel of hole: the larger of the
// horizontal and the vertical one. Without a white pixel it is larger than the picture.
func distances(hole image.Image) []int {
	r := hole.Bounds()
	width, height := r.Dx(), r.Dy()
	inside, d := image.Rect(0, 0, width, height), make([]int, width*height)
	for i := range d {
		if d[i] = width + height; IsWhite(hole.At(r.Min.X+i%width, r.Min.Y+i/width)) {
			d[i] = 0
		}
	}
	// lower bounds the distance of pixel i by those of four neighbours, on one side of it.
	lower := func(i, side int) {
		for _, step := range [4]image.Point{{X: 1}, {X: 1, Y: 1}, {Y: 1}, {X: -1, Y: 1}} {
			if at := image.Pt(i%width, i/width).Add(step.Mul(side)); at.In(inside) {
				d[i] = min(d[i], d[at.Y*width+at.X]+1)
			}
		}
	}
	for i := range d {
		lower(i, -1)
	}
	for i := range slices.Backward(d) {
		lower(i, 1)
	}
	return d
}

// opaque returns a pixel's colour, whatever its alpha.
func opaque(c color.Color) color.NRGBA { return color.NRGBAModel.Convert(c).(color.NRGBA) }

// IsWhite reports whether a mask's pixel is nearer to white than to black, whatever its alpha.
func IsWhite(c color.Color) bool {
	p := opaque(c)
	return int(p.R)+int(p.G)+int(p.B) >= 3*128
}
