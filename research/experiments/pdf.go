package experiments

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"fmt"
	"image/color"
	"math"

	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// PDF returns charts as a PDF file, a page for each. Letters are outlines: a paper's file needs no
// font of ours, and α is in every viewer.
func PDF(charts []Chart) ([]byte, error) {
	objects, kids := []string{"<< /Type /Catalog /Pages 2 0 R >>", ""}, ""
	for i := range charts {
		width, height := charts[i].size()
		var canvas recorder.Canvas
		if err := charts[i].drawOn(draw.NewCanvas(&canvas, width, height)); err != nil {
			return nil, err
		}
		page, packed := pdfPage{lines: []vg.Length{1}}, bytes.Buffer{}
		for _, a := range canvas.Actions {
			page.draw(a)
		}
		w := zlib.NewWriter(&packed)
		w.Write(page.Bytes())
		w.Close()
		n := len(objects) + 1
		kids += fmt.Sprintf("%d 0 R ", n)
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %.2f %.2f] "+
			"/Resources << >> /Contents %d 0 R >>", width, height, n+1),
			fmt.Sprintf("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", packed.Len(),
				packed.String()))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids, len(charts))
	var b, index bytes.Buffer
	b.WriteString("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
	for i, o := range objects {
		fmt.Fprintf(&index, "%010d 00000 n \n", b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\n"+
		"startxref\n%d\n%%%%EOF\n", len(objects)+1, index.String(), len(objects)+1, b.Len())
	return b.Bytes(), nil
}

// pdfPage has the operators of a page, in points from its lower left corner as those of vg.
type pdfPage struct {
	bytes.Buffer
	lines []vg.Length // widths of lines, one for each Push and one more
}

func (p *pdfPage) op(format string, v ...any) { fmt.Fprintf(p, format+"\n", v...) }

// draw appends what a chart drew; charts have no images.
func (p *pdfPage) draw(a recorder.Action) {
	last := len(p.lines) - 1
	switch a := a.(type) {
	case *recorder.SetLineWidth:
		p.lines[last] = a.Width
		p.op("%.3f w", max(a.Width, 0))
	case *recorder.SetLineDash:
		p.op("%.3f %.3f d", a.Dashes, a.Offsets)
	case *recorder.SetColor:
		c := color.NRGBAModel.Convert(cmp.Or[color.Color](a.Color, color.Black)).(color.NRGBA)
		r, g, b := float64(c.R)/255, float64(c.G)/255, float64(c.B)/255
		p.op("%.3f %.3f %.3f RG %.3f %.3f %.3f rg", r, g, b, r, g, b)
	case *recorder.Rotate:
		sin, cos := math.Sincos(a.Angle)
		p.op("%.6f %.6f %.6f %.6f 0 0 cm", cos, sin, -sin, cos)
	case *recorder.Translate:
		p.op("1 0 0 1 %.3f %.3f cm", a.Point.X, a.Point.Y)
	case *recorder.Scale:
		p.op("%.6f 0 0 %.6f 0 0 cm", a.X, a.Y)
	case *recorder.Push:
		p.lines = append(p.lines, p.lines[last])
		p.op("q")
	case *recorder.Pop:
		p.lines = p.lines[:last]
		p.op("Q")
	case *recorder.Stroke:
		if p.lines[last] > 0 {
			p.path(a.Path)
			p.op("S")
		}
	case *recorder.Fill:
		p.path(a.Path)
		p.op("f")
	case *recorder.FillString:
		p.text(font.DefaultCache.Lookup(a.Font, a.Size), a.Point, a.String)
	}
}

func (p *pdfPage) move(to vg.Point) { p.op("%.2f %.2f m", to.X, to.Y) }
func (p *pdfPage) line(to vg.Point) { p.op("%.2f %.2f l", to.X, to.Y) }

func (p *pdfPage) cubic(a, b, to vg.Point) {
	p.op("%.2f %.2f %.2f %.2f %.2f %.2f c", a.X, a.Y, b.X, b.Y, to.X, to.Y)
}

// path appends a path of lines and arcs, which are all that charts have.
func (p *pdfPage) path(path vg.Path) {
	for i, c := range path {
		switch c.Type {
		case vg.MoveComp:
			p.move(c.Pos)
		case vg.LineComp:
			p.line(c.Pos)
		case vg.ArcComp:
			p.arc(c, i == 0)
		case vg.CloseComp:
			p.op("h")
		}
	}
}

// arc appends an arc in pieces of at most a quarter of a circle.
func (p *pdfPage) arc(c vg.PathComp, first bool) {
	on := func(angle, along float64) vg.Point { // along the tangent, in radii
		sin, cos := math.Sincos(angle)
		return c.Pos.Add(vg.Point{X: vg.Length(cos - along*sin), Y: vg.Length(sin + along*cos)}.
			Scale(c.Radius))
	}
	if first {
		p.move(on(c.Start, 0))
	} else {
		p.line(on(c.Start, 0))
	}
	n := max(1, int(math.Ceil(math.Abs(c.Angle)/(math.Pi/2))))
	piece := c.Angle / float64(n)
	reach := 4. / 3 * math.Tan(piece/4)
	for i := range n {
		from := c.Start + float64(i)*piece
		p.cubic(on(from, reach), on(from+piece, -reach), on(from+piece, 0))
	}
}

// text fills the outlines of a text's letters, which are of lines and quadratic curves.
func (p *pdfPage) text(face font.Face, at vg.Point, text string) {
	var buf sfnt.Buffer
	units := fixed.Int26_6(face.Face.UnitsPerEm())
	scale := face.Font.Size / vg.Length(units)
	for i, r := range text {
		glyph, err := face.Face.GlyphIndex(&buf, r)
		if err != nil {
			continue
		}
		origin := at.Add(vg.Point{X: face.Width(text[:i])})
		outline, err := face.Face.LoadGlyph(&buf, glyph, units, nil)
		if err != nil || len(outline) == 0 {
			continue
		}
		var before vg.Point
		for _, s := range outline {
			var to [3]vg.Point
			for j, a := range s.Args { // their y grows downwards
				to[j] = origin.Add(vg.Point{X: vg.Length(a.X), Y: -vg.Length(a.Y)}.Scale(scale))
			}
			switch s.Op {
			case sfnt.SegmentOpMoveTo:
				p.move(to[0])
				before = to[0]
			case sfnt.SegmentOpLineTo:
				p.line(to[0])
				before = to[0]
			case sfnt.SegmentOpQuadTo:
				near := func(end vg.Point) vg.Point { return end.Add(to[0].Sub(end).Scale(2. / 3)) }
				p.cubic(near(before), near(to[1]), to[1])
				before = to[1]
			}
		}
		p.op("f")
	}
}
