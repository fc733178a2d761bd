package experiments

import (
	"bytes"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgpdf"
)

func init() { // equal charts are equal bytes
	fpdf.SetDefaultCatalogSort(true)
	fpdf.SetDefaultCreationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultModificationDate(time.Unix(0, 0).UTC())
}

// PDF returns charts as a PDF file, a page for each, all as large as the largest. Letters are
// outlines: a paper's file needs no font of ours, and α is in every viewer.
func PDF(charts []Chart) ([]byte, error) {
	var page vg.Point
	for i := range charts {
		width, height := charts[i].pictureSize()
		page.X = max(page.X, width)
		page.Y = max(page.Y, height)
	}
	canvas := outlineCanvas{vgpdf.New(page.X, page.Y)}
	for i := range charts {
		if i > 0 {
			canvas.NextPage()
		}
		width, height := charts[i].pictureSize()
		top := vg.Rectangle{Min: vg.Point{Y: page.Y - height}, Max: vg.Point{X: width, Y: page.Y}}
		if err := charts[i].drawOn(draw.Canvas{Canvas: canvas, Rectangle: top}); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), err
}

// outlineCanvas is a canvas that fills the outlines of a text's letters.
type outlineCanvas struct{ *vgpdf.Canvas }

// FillString implements vg.Canvas.
func (c outlineCanvas) FillString(face font.Face, origin vg.Point, text string) {
	var buf sfnt.Buffer
	units := fixed.Int26_6(face.Face.UnitsPerEm())
	scale := face.Font.Size / vg.Length(units)
	for i, r := range text {
		glyph, err := face.Face.GlyphIndex(&buf, r)
		if err != nil {
			continue
		}
		outline, err := face.Face.LoadGlyph(&buf, glyph, units, nil)
		if err != nil {
			continue
		}
		glyphOrigin := origin.Add(vg.Point{X: face.Width(text[:i])})
		var path vg.Path
		var previous vg.Point
		near := func(end, control vg.Point) vg.Point {
			return end.Add(control.Sub(end).Scale(2. / 3))
		}
		for _, s := range outline {
			var points [3]vg.Point
			for j, a := range s.Args { // their y grows downwards
				points[j] = glyphOrigin.Add(vg.Point{X: vg.Length(a.X), Y: -vg.Length(a.Y)}.Scale(scale))
			}
			switch s.Op { // its fonts have no cubic curves
			case sfnt.SegmentOpMoveTo:
				path.Move(points[0])
				previous = points[0]
			case sfnt.SegmentOpLineTo:
				path.Line(points[0])
				previous = points[0]
			case sfnt.SegmentOpQuadTo:
				path.CubeTo(near(previous, points[0]), near(points[1], points[0]), points[1])
				previous = points[1]
			}
		}
		if len(path) > 0 {
			c.Fill(path)
		}
	}
}
