package images

import (
	"image"
	"image/color"
	"image/draw"
	"math"
)

// Sheet is a contact sheet: pictures of one size in a grid with margins between, all on one canvas
// that is allocated at once. One goroutine at a time may use one.
type Sheet struct {
	Canvas *image.NRGBA

	// Size is that of a picture in pixels.
	Size image.Point

	columns int
	margin  int // pixels
}

// paper is the colour between the pictures.
var paper = color.NRGBA{R: 0xf4, G: 0xf4, B: 0xf4, A: 0xff}

// NewSheet returns a sheet with room for n pictures of a size in pixels, with about the same number
// of rows and columns.
func NewSheet(n int, size image.Point) *Sheet {
	columns := max(1, int(math.Ceil(math.Sqrt(float64(n)))))
	rows := max(1, (n+columns-1)/columns)
	margin := max(2, min(size.X, size.Y)/16)
	s := &Sheet{Size: size, columns: columns, margin: margin}
	s.Canvas = image.NewNRGBA(image.Rect(0, 0, columns*(size.X+margin)+margin,
		rows*(size.Y+margin)+margin))
	draw.Draw(s.Canvas, s.Canvas.Rect, image.NewUniform(paper), image.Point{}, draw.Src)
	return s
}

// Corner returns the top left corner of picture i.
func (s *Sheet) Corner(i int) image.Point {
	return image.Pt(s.margin+i%s.columns*(s.Size.X+s.margin), s.margin+i/s.columns*(s.Size.Y+s.margin))
}

// Put draws picture i.
func (s *Sheet) Put(i int, picture image.Image) {
	corner := s.Corner(i)
	draw.Draw(s.Canvas, image.Rectangle{Min: corner, Max: corner.Add(s.Size)}, picture,
		picture.Bounds().Min,
		draw.Src)
}

// DrawCheck draws a grey check over cells of a picture.
func DrawCheck(p *image.NRGBA, masked []image.Rectangle) {
	for _, cell := range masked {
		visitCheck(cell, func(x, y, shade int) { p.Set(x, y, cube[checkDark+shade]) })
	}
}

// visitCheck visits the pixels of a cell in two shades, 0 and 1.
func visitCheck(cell image.Rectangle, visit func(x, y, shade int)) {
	half := max(1, cell.Dx()/2)
	for y := cell.Min.Y; y < cell.Max.Y; y++ {
		for x := cell.Min.X; x < cell.Max.X; x++ {
			visit(x, y, ((x-cell.Min.X)/half+(y-cell.Min.Y)/half)%2)
		}
	}
}

// NRGBA returns the image in the standard library's form, opaque.
func (m *Image) NRGBA() *image.NRGBA {
	p := image.NewNRGBA(image.Rect(0, 0, m.Width, m.Height))
	for i := range m.Width * m.Height {
		copy(p.Pix[4*i:], m.Pix[3*i:3*i+3])
		p.Pix[4*i+3] = 255
	}
	return p
}

// Enlarge returns p with each pixel enlarged to n x n pixels; for n = 1 it returns p itself.
func Enlarge(p *image.NRGBA, n int) *image.NRGBA {
	if n == 1 {
		return p
	}
	width := p.Rect.Dx()
	height := p.Rect.Dy()
	out := image.NewNRGBA(image.Rect(0, 0, n*width, n*height))
	for y := range n * height {
		row := p.Pix[y/n*p.Stride:]
		outRow := out.Pix[y*out.Stride:]
		for x := range n * width {
			copy(outRow[4*x:4*x+4], row[x/n*4:])
		}
	}
	return out
}
