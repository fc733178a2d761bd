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
	// Picture has the model's size.
	Picture *image.NRGBA

	// Hole has the same size, and is white where the picture is painted again.
	Hole *image.NRGBA

	// Tokens are the known tokens of the run that makes it, with masks in the hole.
	Tokens []int32

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
	placement, err := p.place(picture, fit)
	if err != nil {
		return nil, err
	}
	in := &Inpainting{Picture: placement.Picture(picture), pictures: p}
	in.Hole = image.NewNRGBA(in.Picture.Rect)
	draw.Draw(in.Hole, in.Hole.Rect, placement.Mask(hole), image.Point{}, draw.Src)

	in.codes, err = p.Encode(in.Picture)
	if err != nil {
		return nil, err
	}
	in.Tokens, err = p.maskCodes(slices.Clone(in.codes), in.Hole)
	if err == nil && !slices.Contains(in.Tokens, p.mask) {
		where := "is transparent, want a mask or a box"
		if mask != nil || !box.Empty() {
			where = "at the model's size is in the box, or transparent or white in the mask, want some"
		}
		err = param.Refuse("mask", param.NoHole, "no part of the picture %s", where)
	}
	return in, err
}

// RoundTripLoss returns the loss of the codes in what is kept, see Pictures.RoundTripLoss.
func (in *Inpainting) RoundTripLoss() (float64, error) {
	return in.pictures.codesLoss(in.codes, in.Picture, in.Hole)
}

// Paste puts what is kept back into a picture that was made, see Pictures.Paste.
func (in *Inpainting) Paste(result *image.NRGBA) error {
	return in.pictures.Paste(result, in.Picture, in.Hole)
}

// Hash returns a text that differs for other pixels.
func (in *Inpainting) Hash() string {
	hash := sha256.New()
	hash.Write(in.Picture.Pix)
	hash.Write(in.Hole.Pix)
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// Mask returns the tokens [height*width] of a run that makes a picture new where hole is white: the
// picture's codes and, in each cell of the grid that a white pixel touches, a mask. Both images
// have the model's size. A codec that cannot encode is an error.
func (p *Pictures) Mask(picture, hole image.Image) ([]int32, error) {
	codes, err := p.Encode(picture)
	if err != nil {
		return nil, err
	}
	return p.maskCodes(codes, hole)
}

// maskCodes masks the codes of a picture in each cell that a white pixel of hole touches.
func (p *Pictures) maskCodes(codes []int32, hole image.Image) ([]int32, error) {
	c, err := p.gridCodec()
	if err != nil {
		return nil, err
	}
	width, height := c.Size()
	r := hole.Bounds()
	if r.Dx() != width || r.Dy() != height {
		return nil, fmt.Errorf("the mask is %d x %d pixels, want %d x %d", r.Dx(), r.Dy(), width, height)
	}
	cell := cellSize(c)
	columns := c.Shape()[1]
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
	return p.codesLoss(codes, picture, hole)
}

// codesLoss is RoundTripLoss for the codes of the picture.
func (p *Pictures) codesLoss(codes []int32, picture, hole image.Image) (float64, error) {
	decoded, err := p.Image(codes)
	if err != nil {
		return 0, err
	}
	pictureMin := picture.Bounds().Min
	holeMin := hole.Bounds().Min
	sum := 0
	n := 0
	for y := range decoded.Rect.Dy() {
		for x := range decoded.Rect.Dx() {
			if IsWhite(hole.At(holeMin.X+x, holeMin.Y+y)) {
				continue
			}
			a := opaque(picture.At(pictureMin.X+x, pictureMin.Y+y))
			b := decoded.NRGBAAt(x, y)
			for _, d := range [3]int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
				sum += max(d, -d)
			}
			n += 3
		}
	}
	return float64(sum) / float64(max(n, 1)), nil
}

// Paste copies the pixels that hole keeps from picture into result; all three have one size. Within
// one cell of the hole's edge the two are mixed, so that no seam shows. Other sizes are an error.
func (p *Pictures) Paste(result *image.NRGBA, picture, hole image.Image) error {
	c, err := p.load()
	if err != nil {
		return err
	}
	width, height := c.Size()
	for _, m := range []image.Image{result, picture, hole} {
		if r := m.Bounds(); r.Dx() != width || r.Dy() != height {
			return fmt.Errorf("a picture is %d x %d pixels, want %d x %d", r.Dx(), r.Dy(), width, height)
		}
	}

	fade := 1 // pixels over which the two are mixed
	if len(c.Shape()) == 2 {
		cell := cellSize(c)
		fade = max(cell.X, cell.Y)
	}
	pictureMin := picture.Bounds().Min
	for i, distance := range holeDistances(hole) {
		x := i % width
		y := i / width
		weight := min(distance, fade) // of the picture, out of fade
		mix := func(a, b uint8) uint8 {
			return uint8((int(a)*weight + int(b)*(fade-weight) + fade/2) / fade)
		}
		resultX := result.Rect.Min.X + x
		resultY := result.Rect.Min.Y + y
		a := opaque(picture.At(pictureMin.X+x, pictureMin.Y+y))
		b := result.NRGBAAt(resultX, resultY)
		result.SetNRGBA(resultX, resultY,
			color.NRGBA{R: mix(a.R, b.R), G: mix(a.G, b.G), B: mix(a.B, b.B), A: 255})
	}
	return nil
}

// holeDistances returns each pixel's distance from the nearest white pixel of hole: the larger of
// the horizontal and the vertical one. Without a white pixel it is larger than the picture.
//
// Two passes over the pixels find them, one in each direction: a shortest way never needs to turn
// back.
func holeDistances(hole image.Image) []int {
	r := hole.Bounds()
	width := r.Dx()
	height := r.Dy()
	distance := make([]int, width*height)
	for i := range distance {
		if !IsWhite(hole.At(r.Min.X+i%width, r.Min.Y+i/width)) {
			distance[i] = width + height
		}
	}

	// relax bounds the distance of pixel i by those of four neighbours, on one side of it: those
	// before it for a side of -1, those after it for 1.
	inside := image.Rect(0, 0, width, height)
	relax := func(i, side int) {
		for _, step := range [4]image.Point{{X: 1}, {X: 1, Y: 1}, {Y: 1}, {X: -1, Y: 1}} {
			neighbour := image.Pt(i%width, i/width).Add(step.Mul(side))
			if neighbour.In(inside) {
				distance[i] = min(distance[i], distance[neighbour.Y*width+neighbour.X]+1)
			}
		}
	}
	for i := range distance {
		relax(i, -1)
	}
	for i := range slices.Backward(distance) {
		relax(i, 1)
	}
	return distance
}

// opaque returns a pixel's colour, whatever its alpha.
func opaque(c color.Color) color.NRGBA { return color.NRGBAModel.Convert(c).(color.NRGBA) }

// IsWhite reports whether a mask's pixel is nearer to white than to black, whatever its alpha.
func IsWhite(c color.Color) bool {
	p := opaque(c)
	return int(p.R)+int(p.G)+int(p.B) >= 3*128
}
