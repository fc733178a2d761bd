package images

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"strconv"
	"strings"

	xdraw "golang.org/x/image/draw"

	"unmask/param"
)

// FitNames are the ways to bring a picture to another size: cover fills it and crops two sides,
// contain leaves margins on two sides.
var FitNames = []string{"cover", "contain"}

// Placement maps the part Source of a picture to the part Target of a picture of size Size.
type Placement struct {
	Source image.Rectangle
	Target image.Rectangle
	Size   image.Point
}

// Place returns the placement of a picture of size source in one of size target. With a fit of ""
// both must be equal. A picture of more than MaxPixels is refused.
func Place(source, target image.Point, fit string) (Placement, error) {
	p := Placement{
		Source: image.Rectangle{Max: source},
		Target: image.Rectangle{Max: target},
		Size:   target,
	}
	if source.X < 1 || source.Y < 1 || target.X < 1 || target.Y < 1 || source.X > MaxPixels/source.Y {
		return p, fmt.Errorf("picture is %d x %d pixels, want 1 to %d in all",
			source.X, source.Y, MaxPixels)
	}
	scaleX := float64(target.X) / float64(source.X)
	scaleY := float64(target.Y) / float64(source.Y)
	switch fit {
	case "":
		if source != target {
			return p, fmt.Errorf("picture is %d x %d pixels, want %d x %d, or fit cover or contain",
				source.X, source.Y, target.X, target.Y)
		}
	case "cover":
		scale := max(scaleX, scaleY)
		p.Source = middlePart(source, float64(target.X)/scale, float64(target.Y)/scale)
	case "contain":
		scale := min(scaleX, scaleY)
		p.Target = middlePart(target, float64(source.X)*scale, float64(source.Y)*scale)
	default:
		return p, &param.Error{
			Name:   "fit",
			Found:  param.Quote(fit),
			Want:   param.JoinOr(FitNames),
			Reason: param.NoSuch,
		}
	}
	return p, nil
}

// middlePart returns the middle of an area that is w wide and h high, rounded, at least one pixel
// and at most the area.
func middlePart(area image.Point, w, h float64) image.Rectangle {
	part := image.Pt(
		min(max(int(math.Round(w)), 1), area.X),
		min(max(int(math.Round(h)), 1), area.Y),
	)
	corner := image.Pt((area.X-part.X)/2, (area.Y-part.Y)/2)
	return image.Rectangle{Min: corner, Max: corner.Add(part)}
}

// Picture returns the placed picture, opaque: alpha is dropped, and margins repeat the colours of
// the nearest edge.
func (p Placement) Picture(picture image.Image) *image.NRGBA {
	opaque := fromImage(picture).NRGBA()
	out := image.NewNRGBA(image.Rectangle{Max: p.Size})
	if p.Source.Size() == p.Target.Size() {
		draw.Draw(out, p.Target, opaque, p.Source.Min, draw.Src)
	} else {
		xdraw.CatmullRom.Scale(out, p.Target, opaque, p.Source, draw.Src, nil)
	}
	for y := range p.Size.Y {
		for x := range p.Size.X {
			nearX := min(max(x, p.Target.Min.X), p.Target.Max.X-1)
			nearY := min(max(y, p.Target.Min.Y), p.Target.Max.Y-1)
			if nearX != x || nearY != y {
				out.SetNRGBA(x, y, out.NRGBAAt(nearX, nearY))
			}
		}
	}
	return out
}

// Mask returns the placed mask: white where at least a quarter of a pixel's area is white, and in
// margins.
func (p Placement) Mask(mask *image.Gray) *image.Gray {
	out := image.NewGray(image.Rectangle{Max: p.Size})
	draw.Draw(out, out.Rect, image.White, image.Point{}, draw.Src)
	if p.Source.Size() == p.Target.Size() {
		draw.Draw(out, p.Target, mask, p.Source.Min, draw.Src)
	} else {
		xdraw.BiLinear.Scale(out, p.Target, mask, p.Source, draw.Src, nil)
	}
	for i, v := range out.Pix {
		out.Pix[i] = 0
		if v >= 64 {
			out.Pix[i] = 255
		}
	}
	return out
}

// HoleMask returns the mask of a partly new picture. It is white inside box, or where mask is
// white, or transparent if mask has transparent pixels; without box and mask it is white where
// picture is transparent. A box that leaves the picture is a *param.Error, and a mask of another
// size.
func HoleMask(picture, mask image.Image, box image.Rectangle) (*image.Gray, error) {
	size := picture.Bounds().Size()
	if _, err := Place(size, size, ""); err != nil {
		return nil, err
	}
	out := image.NewGray(image.Rectangle{Max: size})
	if !box.Empty() {
		if !box.In(out.Rect) {
			return nil, param.Refuse("box", param.OutOfRange,
				"box is %d,%d,%d,%d, want it within %d x %d pixels", box.Min.X, box.Min.Y, box.Dx(), box.Dy(),
				size.X, size.Y)
		}
		draw.Draw(out, box, image.White, image.Point{}, draw.Src)
		if mask == nil {
			return out, nil
		}
	}
	source := picture // what says where the hole is
	byAlpha := true   // by its alpha, or by its brightness
	if mask != nil {
		if maskSize := mask.Bounds().Size(); maskSize != size {
			return nil, &param.Error{
				Name:  "mask",
				Found: fmt.Sprintf("%d x %d pixels", maskSize.X, maskSize.Y),
				Want:  fmt.Sprintf("%d x %d as the picture", size.X, size.Y),
			}
		}
		source = mask
		byAlpha = !isOpaque(mask)
	}
	corner := source.Bounds().Min
	for y := range size.Y {
		for x := range size.X {
			c := color.NRGBAModel.Convert(source.At(corner.X+x, corner.Y+y)).(color.NRGBA)
			isHole := c.A < 128
			if !byAlpha {
				isHole = int(c.R)+int(c.G)+int(c.B) >= 3*128
			}
			if isHole {
				out.SetGray(x, y, color.Gray{Y: 255})
			}
		}
	}
	return out, nil
}

// isOpaque reports whether a picture has no transparent pixel, as far as it says so.
func isOpaque(m image.Image) bool {
	if o, ok := m.(interface{ Opaque() bool }); ok {
		return o.Opaque()
	}
	return true
}

// ParseBox reads X,Y,W,H: a box's left, top, width and height in pixels. Anything else is an error,
// as a box without pixels is.
func ParseBox(text string) (image.Rectangle, error) {
	refused := &param.Error{
		Name:  "box",
		Found: param.Quote(text),
		Want:  "X,Y,W,H in pixels, such as 16,16,32,32",
	}
	parts := strings.Split(text, ",")
	var v [4]int
	if len(parts) != len(v) {
		return image.Rectangle{}, refused
	}
	for i, part := range parts {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		isSize := i >= 2
		if err != nil || n < 0 || n > MaxPixels || isSize && n == 0 {
			return image.Rectangle{}, refused
		}
		v[i] = n
	}
	return image.Rect(v[0], v[1], v[0]+v[2], v[1]+v[3]), nil
}

// CheckFit returns an error for an unknown fit.
func CheckFit(fit string) error {
	_, err := Place(image.Pt(1, 1), image.Pt(1, 1), fit)
	return err
}
