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
		width, height := charts[i].size()
		page.X = max(page.X, width)
		page.Y = max(page.Y, height)
	}
	canvas := outlined{vgpdf.New(page.X, page.Y)}
	for i := range charts {
		if i > 0 {
			canvas.NextPage()
		}
		width, height := charts[i].size()
		top := vg.Rectangle{Min: vg.Point{Y: page.Y - height}, Max: vg.Point{X: width, Y: page.Y}}
		if err := charts[i].drawOn(draw.Canvas{Canvas: canvas, Rectangle: top}); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), err
}

// outlined is a canvas that fills the outlines of a text's letters.
type outlined struct{ *vgpdf.Canvas }

// FillString implements vg.Canvas.
func (c outlined) FillString(face font.Face, at vg.Point, text string) {
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
		origin := at.Add(vg.Point{X: face.Width(text[:i])})
		var path vg.Path
		var before vg.Point
		near := func(end, control vg.Point) vg.Point { return end.Add(control.Sub(end).Scale(2. / 3)) }
		for _, s := range outline {
			var to [3]vg.Point
			for j, a := range s.Args { // their y grows downwards
				to[j] = origin.Add(vg.Point{X: vg.Length(a.X), Y: -vg.Length(a.Y)}.Scale(scale))
			}
			switch s.Op { // its fonts have no cubic curves
			case sfnt.SegmentOpMoveTo:
				path.Move(to[0])
				before = to[0]
			case sfnt.SegmentOpLineTo:
				path.Line(to[0])
				before = to[0]
			case sfnt.SegmentOpQuadTo:
				path.CubeTo(near(before, to[0]), near(to[1], to[0]), to[1])
				before = to[1]
			}
		}
		if len(path) > 0 {
			c.Fill(path)
		}
	}
}
