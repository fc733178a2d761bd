package experiments

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is a plot with a legend beside it.
type Chart struct {
	// Name is that of its files, without extension.
	Name string

	Title string

	// X and Y are the labels of the axes.
	X    string
	Y    string
	LogX bool
	LogY bool

	// TicksAtValues gives X ticks only at the values, as suits numbers of steps.
	TicksAtValues bool

	// Unjoined leaves points with bars without lines between them.
	Unjoined bool

	// BarMeaning says what the bars are; "" means one standard error.
	BarMeaning string

	// SampleNote says what the bars are computed of, such as "64 samples"; "" if it is unknown.
	SampleNote string

	Curves []Curve
}

// steps returns the different numbers of steps.
func (c *Chart) steps() (all []int) {
	for _, k := range c.Curves {
		all = append(all, k.Steps...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// caption says what the bars are; it is empty where there are none.
func (c *Chart) caption() string {
	hasBars := slices.ContainsFunc(c.Curves, func(k Curve) bool {
		return slices.Max(slices.Concat([]float64{0}, k.Error, k.ErrorBelow, k.ErrorX)) > 0
	})
	if !hasBars {
		return ""
	}
	text := "Bars: " + cmp.Or(c.BarMeaning, "one standard error to each side")
	if c.SampleNote != "" {
		text += ", of " + c.SampleNote
	}
	return text + "."
}

// Curve is one method's points, joined by lines. Its slices have one element for each point.
type Curve struct {
	Name   string
	Method Point
	X      []float64
	Y      []float64

	// Error are the lengths of bars upwards, 0 for none, and ErrorBelow those downwards; nil means
	// as long as upwards.
	Error      []float64
	ErrorBelow []float64

	// ErrorX are half the lengths of bars along X; nil for none.
	ErrorX []float64

	// Steps are the numbers of steps; nil if unknown.
	Steps []int
}

// addPoint appends a point at a number of steps, with bars of one standard error.
func (c *Curve) addPoint(steps int, x, y Measure) {
	c.X = append(c.X, x.Value)
	c.Y = append(c.Y, y.Value)
	c.Error = append(c.Error, y.Error())
	c.ErrorX = append(c.ErrorX, x.Error())
	c.Steps = append(c.Steps, steps)
}

// Sizes of a chart without its legend, the legend's least width, the gap between them, the space
// above the legend, and dots per inch of the PNG. A chart is 5.5 inches wide, as a paper's text
// in one column is, so that its letters keep their size.
const (
	frameWidth, chartHeight = 3.9 * vg.Inch, 3.1 * vg.Inch
	legendWidth             = 1.6 * vg.Inch
	legendGap               = 6 * vg.Length(1)
	legendTop               = 26 * vg.Length(1)
	pngDPI                  = 200
)

// look is the colour and marker of a sampler. Colours differ in lightness, so that they differ in
// grey too, and for readers who are blind to some colours. Curves with the same glyph have other
// dashes, and those with the cache a ring around each marker, which tells single points apart.
type look struct {
	color color.NRGBA
	glyph draw.GlyphDrawer
}

var looks = map[string]look{
	"random":   {color.NRGBA{0, 0, 0, 255}, draw.CrossGlyph{}},
	"maskgit":  {color.NRGBA{130, 10, 30, 255}, draw.CircleGlyph{}},     // grey 48 of 255
	"moment":   {color.NRGBA{60, 130, 220, 255}, draw.BoxGlyph{}},       // 119
	"temp":     {color.NRGBA{225, 160, 40, 255}, draw.PyramidGlyph{}},   // 166
	"halton":   {color.NRGBA{15, 125, 65, 255}, draw.PlusGlyph{}},       // 85
	"u-moment": {color.NRGBA{80, 35, 140, 255}, draw.SquareGlyph{}},     // 60
	"hybrid":   {color.NRGBA{235, 110, 130, 255}, draw.TriangleGlyph{}}, // 150
	fixedName:  {color.NRGBA{0, 0, 0, 255}, draw.CrossGlyph{}},          // random's name in table 2
	"vanilla":  {color.NRGBA{172, 172, 172, 255}, draw.RingGlyph{}},
}

// extraLooks are colours and markers of samplers that are not in the paper, by place in the chart.
var extraLooks = []look{
	{color.NRGBA{0, 90, 120, 255}, draw.RingGlyph{}},
	{color.NRGBA{150, 100, 60, 255}, draw.SquareGlyph{}},
	{color.NRGBA{90, 160, 150, 255}, draw.TriangleGlyph{}},
	{color.NRGBA{180, 60, 160, 255}, draw.CircleGlyph{}},
	{color.NRGBA{70, 70, 70, 255}, draw.PyramidGlyph{}},
	{color.NRGBA{140, 150, 40, 255}, draw.BoxGlyph{}},
	{color.NRGBA{230, 120, 110, 255}, draw.PlusGlyph{}},
	{color.NRGBA{0, 0, 0, 255}, draw.CrossGlyph{}},
}

var dashes = [][]vg.Length{
	nil,
	{vg.Points(6), vg.Points(3)},
	{vg.Points(2), vg.Points(2)},
	{vg.Points(8), vg.Points(2), vg.Points(2), vg.Points(2)},
	{vg.Points(12), vg.Points(3)},
	{vg.Points(4), vg.Points(1)},
	{vg.Points(1), vg.Points(4)},
	{vg.Points(12), vg.Points(2), vg.Points(4), vg.Points(2)},
}

// look returns the look of curve i: its sampler's, or one of others by its place.
func (c *Chart) look(i int) look {
	if l, ok := looks[c.Curves[i].Method.Sampler]; ok {
		return l
	}
	n := len(extraLooks)
	l := extraLooks[i%n]
	l.glyph = extraLooks[(i+i/n)%n].glyph // a colour comes back with another marker
	return l
}

// curveStyle returns the styles of curve i: its dashes depend on the number of earlier curves with
// the same glyph, and its marker has a ring with the cache.
func (c *Chart) curveStyle(i int) (draw.LineStyle, draw.GlyphStyle) {
	l := c.look(i)
	dash := 0
	for before := range i {
		if c.look(before).glyph == l.glyph {
			dash++
		}
	}
	line := draw.LineStyle{Color: l.color, Width: vg.Points(1.2), Dashes: dashes[dash%len(dashes)]}
	marker := l.glyph
	if c.Curves[i].Method.Cache > 0 {
		marker = ringedGlyph{marker}
	}
	return line, draw.GlyphStyle{Color: l.color, Radius: vg.Points(3), Shape: marker}
}

// ringedGlyph is the marker of a sampler with the cache: its marker without, in a ring.
type ringedGlyph struct{ draw.GlyphDrawer }

// DrawGlyph implements draw.GlyphDrawer.
func (r ringedGlyph) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, center vg.Point) {
	r.GlyphDrawer.DrawGlyph(c, style, center)
	style.Radius *= 1.5
	draw.RingGlyph{}.DrawGlyph(c, style, center)
}

// drawOn draws the chart on a canvas.
func (c *Chart) drawOn(dc draw.Canvas) error {
	if len(c.Curves) == 0 {
		return fmt.Errorf("plot %s: nothing to draw", c.Name)
	}
	p := plot.New()
	p.Title.Text = c.Title
	p.Title.TextStyle.Font.Size = vg.Points(10.5)
	p.Title.Padding = vg.Points(6)
	p.BackgroundColor = color.White
	grid := plotter.NewGrid()
	grid.Vertical.Color = color.Gray{225}
	grid.Horizontal.Color = color.Gray{225}
	p.Add(grid)
	legend := newLegend()
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Tick.Label.Font.Size = vg.Points(8.5)
	}
	hasPoints := false
	labels := &stepLabels{}
	for i := range c.Curves {
		added, err := c.addCurve(p, &legend, labels, i)
		if err != nil {
			return err
		}
		hasPoints = hasPoints || added
	}
	if !hasPoints {
		return fmt.Errorf("plot %s: no point that its axes can show", c.Name)
	}
	c.setScales(p)
	if !c.TicksAtValues && len(c.steps()) > 1 {
		p.Add(labels)
	}
	right := dc.Max.X - dc.Min.X - frameWidth
	c.drawAxes(p, draw.Crop(dc, vg.Points(4), -right, vg.Points(4), -vg.Points(4)))
	legend.Draw(draw.Crop(dc, frameWidth+legendGap, 0, 0, -legendTop))
	return nil
}

// newLegend returns an empty legend in the style of all charts.
func newLegend() plot.Legend {
	legend := plot.NewLegend()
	legend.Top = true
	legend.Left = true
	legend.YPosition = 0
	legend.ThumbnailWidth = vg.Points(26)
	legend.Padding = vg.Points(2)
	legend.TextStyle.Font.Size = vg.Points(9)
	return legend
}

// pictureSize returns the size of the chart's picture: the legend is as wide and high as its names
// need.
func (c *Chart) pictureSize() (width, height vg.Length) {
	legend := newLegend()
	widest := vg.Length(0)
	for _, k := range c.Curves {
		widest = max(widest, legend.TextStyle.Width(" "+k.Name+" "))
	}
	row := legend.TextStyle.Height("X") + legend.Padding + vg.Points(2)
	return frameWidth + max(legendWidth, legendGap+legend.ThumbnailWidth+widest),
		max(chartHeight, legendTop+vg.Points(24)+row*vg.Length(len(c.Curves)))
}

// drawAxes draws p with the labels of its axes beside it. Labels in p would leave an empty strip at
// the ends of logarithmic axes, where gonum takes their middle for that of the values.
func (c *Chart) drawAxes(p *plot.Plot, dc draw.Canvas) {
	dc.SetColor(p.BackgroundColor)
	dc.Fill(dc.Rectangle.Path())
	x := c.X
	style := p.X.Label.TextStyle
	if steps := c.steps(); !c.TicksAtValues && len(steps) > 1 {
		x += "; at the points: steps"
	} else if !c.TicksAtValues && len(steps) == 1 {
		x += fmt.Sprintf("; %d steps", steps[0])
	}
	style.Font.Size = vg.Points(9)
	style.XAlign = draw.XCenter
	style.YAlign = draw.YBottom
	high := style.Height("X")
	if caption := c.caption(); caption != "" {
		captionStyle := style
		captionStyle.Font.Size = vg.Points(8)
		captionStyle.XAlign = draw.XLeft
		dc.FillText(captionStyle, dc.Min, caption)
		dc.Min.Y += high + vg.Points(3)
	}
	inside := draw.Crop(dc, high+vg.Points(6), 0, high+vg.Points(3), 0)
	p.Draw(inside)
	data := p.DataCanvas(inside)
	middle := data.Center()
	dc.FillText(style, vg.Point{X: middle.X, Y: dc.Min.Y}, x)
	style.YAlign = draw.YTop
	style.Rotation = math.Pi / 2
	dc.FillText(style, vg.Point{X: dc.Min.X, Y: middle.Y}, c.Y)
}

// addCurve draws the points of a curve that the axes can show; it returns false if there are none.
func (c *Chart) addCurve(p *plot.Plot, legend *plot.Legend, labels *stepLabels,
	i int) (bool, error) {
	k := c.Curves[i]
	bars := errorBars{logX: c.LogX, logY: c.LogY}
	var steps []string
	for j, x := range k.X {
		y := k.Y[j]
		if !drawable(x, c.LogX) || !drawable(y, c.LogY) {
			continue
		}
		across := 0.0
		below := k.Error[j]
		if k.ErrorX != nil {
			across = k.ErrorX[j]
		}
		if k.ErrorBelow != nil {
			below = k.ErrorBelow[j]
		}
		bars.XYs = append(bars.XYs, plotter.XY{X: x, Y: y})
		bars.below = append(bars.below, below)
		bars.above = append(bars.above, k.Error[j])
		bars.across = append(bars.across, across)
		if k.Steps != nil {
			steps = append(steps, strconv.Itoa(k.Steps[j]))
		}
	}
	if len(bars.XYs) == 0 {
		return false, nil
	}
	line, marks, err := plotter.NewLinePoints(bars.XYs)
	if err != nil {
		return false, fmt.Errorf("plot %s: %s: %w", c.Name, k.Name, err)
	}
	line.LineStyle, marks.GlyphStyle = c.curveStyle(i)
	if c.Unjoined && slices.Max(bars.above) > 0 {
		line.Width = 0
	}
	if err := bars.addTo(p, line.Color); err != nil {
		return false, fmt.Errorf("plot %s: %s: %w", c.Name, k.Name, err)
	}
	p.Add(line, marks)
	labels.curves = append(labels.curves, labelledCurve{bars, steps, line.Color})
	legend.Add(k.Name, line, marks)
	return true, nil
}

// drawable reports whether an axis can show v, with room for a margin beside it.
func drawable(v float64, log bool) bool {
	const limit = 1e100
	return math.Abs(v) <= limit && (!log || v >= 1/limit)
}

// errorBars are bars cut off at 0, below which no metric goes, and above 0 on a logarithmic axis.
type errorBars struct {
	plotter.XYs
	above  []float64
	below  []float64
	across []float64
	logX   bool
	logY   bool
}

// YError implements plotter.YErrorer.
func (e errorBars) YError(i int) (low, high float64) {
	return clipBar(e.below[i], e.XYs[i].Y, e.logY), e.above[i]
}

// XError implements plotter.XErrorer.
func (e errorBars) XError(i int) (low, high float64) {
	return clipBar(e.across[i], e.XYs[i].X, e.logX), e.across[i]
}

// clipBar returns the length of a bar below v that would be half long: a bar ends at 0, and on a
// logarithmic axis, which has no 0, at half of v.
func clipBar(half, v float64, log bool) float64 {
	switch {
	case log:
		return min(half, v/2)
	case v >= 0:
		return min(half, v)
	}
	return half
}

// addTo adds the bars that are longer than 0.
func (e errorBars) addTo(p *plot.Plot, c color.Color) error {
	if slices.Max(slices.Concat(e.below, e.above)) > 0 {
		y, err := plotter.NewYErrorBars(e)
		if err != nil {
			return err
		}
		y.Color = c
		y.Width = vg.Points(0.6)
		y.CapWidth = vg.Points(4)
		p.Add(y)
	}
	if slices.Max(e.across) > 0 {
		x, err := plotter.NewXErrorBars(e)
		if err != nil {
			return err
		}
		x.Color = c
		x.Width = vg.Points(0.6)
		x.CapWidth = vg.Points(4)
		p.Add(x)
	}
	return nil
}

// SVG returns the chart as SVG.
func (c *Chart) SVG() ([]byte, error) {
	canvas := vgsvg.New(c.pictureSize())
	return c.render(draw.New(canvas), canvas)
}

// PNG returns the chart as PNG.
func (c *Chart) PNG() ([]byte, error) {
	width, height := c.pictureSize()
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pngDPI))
	return c.render(draw.New(canvas), vgimg.PngCanvas{Canvas: canvas})
}

// render draws the chart on a canvas and returns what w then writes.
func (c *Chart) render(dc draw.Canvas, w io.WriterTo) ([]byte, error) {
	if err := c.drawOn(dc); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err := w.WriteTo(&b)
	return b.Bytes(), err
}
