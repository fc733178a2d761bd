package experiments

import (
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// axisMargin is the share of an axis left free at each end, so that markers and bars stay within
// the frame.
const axisMargin = 0.04

// setScales gives the axes their scales, ticks and margins.
func (c *Chart) setScales(p *plot.Plot) {
	setScale(&p.X, c.LogX)
	setScale(&p.Y, c.LogY)
	if !c.TicksAtValues {
		return
	}
	var ticks []plot.Tick
	for _, k := range c.Curves {
		for _, x := range k.X {
			t := plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'g', -1, 64)}
			if !slices.Contains(ticks, t) {
				ticks = append(ticks, t)
			}
		}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
}

// setScale gives an axis, whose ends are those of the values, its scale, ticks and margins.
func setScale(a *plot.Axis, log bool) {
	if a.Min == a.Max { // a single point
		a.Min = a.Min - 0.1*math.Abs(a.Min) - 1e-9
		a.Max = a.Max + 0.1*math.Abs(a.Max) + 1e-9
	}
	if log {
		if a.Min <= 0 {
			a.Min = a.Max / 10
		}
		a.Scale = plot.LogScale{}
		a.Tick.Marker = decadeTicks{}
		free := math.Pow(a.Max/a.Min, axisMargin)
		a.Min /= free
		a.Max *= free
		return
	}
	a.Tick.Marker = evenTicks{}
	free := axisMargin * (a.Max - a.Min)
	a.Min -= free
	a.Max += free
}

// evenTicks places four to nine ticks at multiples of 1, 2 or 5 times a power of ten, with as many
// digits as their labels need to differ.
type evenTicks struct{}

// Ticks implements plot.Ticker.
func (evenTicks) Ticks(low, high float64) []plot.Tick {
	width := high - low
	if !(width > 0) || math.IsInf(width, 0) {
		return nil
	}
	digits := int(math.Floor(math.Log10(width / 4)))
	step := math.Pow(10, float64(digits))
	for _, k := range []float64{5, 2} {
		if k*step <= width/4 {
			step *= k
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(low/step) + 0; i*step <= high && len(ticks) < 20; i++ { // + 0: no -0
		if i*step < low { // by rounding
			continue
		}
		label := strconv.FormatFloat(i*step, 'f', max(0, -digits), 64)
		if math.Abs(i*step) >= 1e6 || digits < -6 {
			label = strconv.FormatFloat(i*step, 'g', 6, 64)
		}
		ticks = append(ticks, plot.Tick{Value: i * step, Label: label})
	}
	return ticks
}

// decadeTicks places ticks at powers of ten; if these are fewer than three, at 1, 2 and 5 times
// them; then at 1, 1.5, 2, 3, 5 and 7 times them; and if these are fewer than four too, evenly.
type decadeTicks struct{}

// Ticks implements plot.Ticker.
func (decadeTicks) Ticks(low, high float64) []plot.Tick {
	if !(low > 0) || math.IsInf(high, 0) {
		return nil
	}
	for _, mantissas := range [][]float64{{1}, {1, 2, 5}, {1, 1.5, 2, 3, 5, 7}} {
		var ticks []plot.Tick
		labels := 0
		for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
			for d := 1.0; d < 10; d += 0.5 {
				v := d * math.Pow(10, e)
				hasLabel := slices.Contains(mantissas, d)
				if v < low || v > high || !hasLabel && d != math.Trunc(d) {
					continue
				}
				t := plot.Tick{Value: v}
				if hasLabel {
					t.Label = logLabel(v)
					labels++
				}
				ticks = append(ticks, t)
			}
		}
		if labels >= min(4, 2+len(mantissas)) {
			return ticks
		}
	}
	return evenTicks{}.Ticks(low, high)
}

// logLabel writes the value of a tick with at most three digits that are not 0.
func logLabel(v float64) string {
	if v >= 10 && v < 1e6 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// stepLabels writes the number of steps beside the points of curves, each where it covers nothing,
// and leaves out those that would.
type stepLabels struct{ curves []labelledCurve }

type labelledCurve struct {
	errorBars
	text  []string // nil for none
	color color.Color
}

// Plot implements plot.Plotter.
func (l *stepLabels) Plot(dc draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&dc)
	toCanvas := func(xy plotter.XY) vg.Point { return vg.Point{X: toX(xy.X), Y: toY(xy.Y)} }
	var covered []vg.Rectangle // by markers and lines
	rectangleAround := func(v vg.Point, wide, high vg.Length) vg.Rectangle {
		half := vg.Point{X: wide / 2, Y: high / 2}
		return vg.Rectangle{Min: v.Sub(half), Max: v.Add(half)}
	}
	for _, k := range l.curves {
		for i, xy := range k.XYs {
			covered = append(covered, rectangleAround(toCanvas(xy), 7, 7))
			covered = append(covered, k.barRectangles(i, toCanvas)...)
			for t := 0.1; i > 0 && t < 1; t += 0.1 {
				between := toCanvas(k.XYs[i-1]).Scale(vg.Length(1 - t)).Add(toCanvas(xy).Scale(vg.Length(t)))
				covered = append(covered, rectangleAround(between, 1, 1))
			}
		}
	}
	style := p.X.Tick.Label
	style.Font.Size = vg.Points(7.5)
	style.XAlign = draw.XCenter
	style.YAlign = draw.YCenter
	for _, k := range l.curves {
		style.Color = k.color
		for i, text := range k.text {
			wide := style.Width(text)
			high := style.Height(text)
			for _, side := range []vg.Point{{X: 1, Y: 1}, {Y: 1}, {X: 1}, {Y: -1}, {X: -1}, {X: 1, Y: -1},
				{X: -1, Y: 1}, {X: -1, Y: -1}} {
				place := toCanvas(k.XYs[i]).Add(vg.Point{X: side.X * (wide/2 + 4), Y: side.Y * (high/2 + 3)})
				box := rectangleAround(place, wide, high)
				if !dc.Contains(box.Min) || !dc.Contains(box.Max) || slices.ContainsFunc(covered,
					func(r vg.Rectangle) bool { return overlaps(r, box) }) {
					continue
				}
				dc.FillText(style, place, text)
				covered = append(covered, box)
				break
			}
		}
	}
}

// barRectangles returns the places of a point's bars.
func (k labelledCurve) barRectangles(i int, toCanvas func(plotter.XY) vg.Point) []vg.Rectangle {
	low, high := k.YError(i)
	left, right := k.XError(i)
	xy := k.XYs[i]
	return []vg.Rectangle{
		{
			Min: toCanvas(plotter.XY{X: xy.X, Y: xy.Y - low}).Sub(vg.Point{X: 1}),
			Max: toCanvas(plotter.XY{X: xy.X, Y: xy.Y + high}).Add(vg.Point{X: 1}),
		},
		{
			Min: toCanvas(plotter.XY{X: xy.X - left, Y: xy.Y}).Sub(vg.Point{Y: 1}),
			Max: toCanvas(plotter.XY{X: xy.X + right, Y: xy.Y}).Add(vg.Point{Y: 1}),
		},
	}
}

// overlaps reports whether rectangles share an area.
func overlaps(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}
