package experiments

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// stepLabels writes the number of steps beside the points of curves, each where it covers nothing,
// and leaves out those that would.
type stepLabels struct{ curves []labelled }

type labelled struct {
	errorBars
	text  []string // nil for none
	color color.Color
}

// Plot implements plot.Plotter.
func (l *stepLabels) Plot(dc draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&dc)
	at := func(xy plotter.XY) vg.Point { return vg.Point{X: toX(xy.X), Y: toY(xy.Y)} }
	var taken []vg.Rectangle // by markers and lines
	around := func(v vg.Point, wide, high vg.Length) vg.Rectangle {
		half := vg.Point{X: wide / 2, Y: high / 2}
		return vg.Rectangle{Min: v.Sub(half), Max: v.Add(half)}
	}
	for _, k := range l.curves {
		for i, xy := range k.XYs {
			taken = append(taken, around(at(xy), 7, 7))
			taken = append(taken, k.reach(i, at)...)
			for t := 0.1; i > 0 && t < 1; t += 0.1 {
				between := at(k.XYs[i-1]).Scale(vg.Length(1 - t)).Add(at(xy).Scale(vg.Length(t)))
				taken = append(taken, around(between, 1, 1))
			}
		}
	}
	style := p.X.Tick.Label
	style.Font.Size, style.XAlign, style.YAlign = vg.Points(7.5), draw.XCenter, draw.YCenter
	for _, k := range l.curves {
		style.Color = k.color
		for i, text := range k.text {
			wide, high := style.Width(text), style.Height(text)
			for _, side := range []vg.Point{{X: 1, Y: 1}, {Y: 1}, {X: 1}, {Y: -1}, {X: -1}, {X: 1, Y: -1},
				{X: -1, Y: 1}, {X: -1, Y: -1}} {
				to := at(k.XYs[i]).Add(vg.Point{X: side.X * (wide/2 + 4), Y: side.Y * (high/2 + 3)})
				box := around(to, wide, high)
				if !dc.Contains(box.Min) || !dc.Contains(box.Max) || slices.ContainsFunc(taken,
					func(r vg.Rectangle) bool { return overlap(r, box) }) {
					continue
				}
				dc.FillText(style, to, text)
				taken = append(taken, box)
				break
			}
		}
	}
}

// reach returns the places of a point's bars.
func (k labelled) reach(i int, at func(plotter.XY) vg.Point) []vg.Rectangle {
	low, high := k.YError(i)
	left, right := k.XError(i)
	xy := k.XYs[i]
	return []vg.Rectangle{
		{Min: at(plotter.XY{X: xy.X, Y: xy.Y - low}).Sub(vg.Point{X: 1}),
			Max: at(plotter.XY{X: xy.X, Y: xy.Y + high}).Add(vg.Point{X: 1})},
		{Min: at(plotter.XY{X: xy.X - left, Y: xy.Y}).Sub(vg.Point{Y: 1}),
			Max: at(plotter.XY{X: xy.X + right, Y: xy.Y}).Add(vg.Point{Y: 1})}}
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}
