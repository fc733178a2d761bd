package experiments

import (
	"bytes"
	"compress/zlib"
	"image/color"
	"image/png"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
	"pgregory.net/rapid"
)

// Tick labels differ from each other, there are three or more, and none is -0.
func TestTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1000, 1000).Draw(t, "low")
		width := math.Pow(10, rapid.Float64Range(-4, 4).Draw(t, "width"))
		check := func(ticker plot.Ticker, low, high float64) {
			seen := map[string]bool{}
			for _, tick := range ticker.Ticks(low, high) {
				require.True(t, tick.Value >= low && tick.Value <= high)
				if tick.Label == "" {
					continue
				}
				require.False(t, seen[tick.Label], "%q twice, %v to %v", tick.Label, low, high)
				require.NotRegexp(t, `^-0(\.0*)?$`, tick.Label)
				seen[tick.Label] = true
			}
			require.GreaterOrEqual(t, len(seen), 3, "%v to %v", low, high)
		}
		check(evenTicks{}, low, low+width)
		if low > 0 {
			check(decadeTicks{}, low, low+width)
		}
	})
}

// Every point and bar is within the axes, with room for its marker.
func TestFrame(t *testing.T) {
	for _, log := range []bool{false, true} {
		c := Chart{Name: "x", LogX: log, LogY: log, Curves: []Curve{
			{Name: "a", X: []float64{4, 8, 32}, Y: []float64{0.03, 0.1, 0.2},
				Error: []float64{0.04, 0.01, 0.3}},
			{Name: "b", X: []float64{4}, Y: []float64{0.002}, Error: []float64{0}},
		}}
		p := plot.New()
		legend := plot.NewLegend()
		for i := range c.Curves {
			_, err := c.addCurve(p, &legend, &stepLabels{}, i)
			require.NoError(t, err)
		}
		c.setScales(p)
		for _, k := range c.Curves {
			for i := range k.X {
				bars := errorBars{plotter.XYs{{X: k.X[i], Y: k.Y[i]}}, k.Error[i:], k.Error[i:], nil, log, log}
				low, high := bars.YError(0)
				require.GreaterOrEqual(t, k.Y[i]-low, 0.0)
				require.True(t, p.X.Min < k.X[i] && k.X[i] < p.X.Max)
				require.Less(t, p.Y.Min, k.Y[i]-low)
				require.Greater(t, p.Y.Max, k.Y[i]+high)
			}
		}
		data, err := c.PNG()
		require.NoError(t, err)
		_, err = png.Decode(bytes.NewReader(data))
		require.NoError(t, err)
	}
}

// The longest name of a legend ends before the picture does.
func TestLegendFits(t *testing.T) {
	for _, name := range []string{"a", "demo of images, uncached",
		"outline(choose=hybrid(alpha=12.5))+cache(3) α=6 temperature=0.7 top-p=0.95"} {
		c := Chart{Name: "x", Curves: []Curve{{Name: name, X: []float64{1, 2}, Y: []float64{1, 2},
			Error: []float64{0, 0}}}}
		data, err := c.PNG()
		require.NoError(t, err)
		picture, err := png.Decode(bytes.NewReader(data))
		require.NoError(t, err)
		b := picture.Bounds()
		for x := b.Max.X - 3; x < b.Max.X; x++ {
			for y := range b.Max.Y {
				require.Equal(t, color.White, color.Gray16Model.Convert(picture.At(x, y)), name)
			}
		}
	}
}

// Single points of a sampler differ with and without the cache, also in the legend, and for every
// marker.
func TestCachedMarkers(t *testing.T) {
	drawn := func(name string, cache int) []byte {
		c := Chart{Name: "x", Curves: []Curve{{Name: "one name",
			Method: Point{Sampler: name, Cache: cache}, X: []float64{1}, Y: []float64{1},
			Error: []float64{0}}}}
		data, err := c.SVG()
		require.NoError(t, err)
		return data
	}
	for name := range looks {
		plain, cached := drawn(name, 0), drawn(name, 1)
		rings := bytes.Count(cached, []byte("A")) - bytes.Count(plain, []byte("A"))
		require.Positive(t, rings, name)
		require.Zero(t, rings%2, "%s: at the point and in the legend", name)
		require.Equal(t, cached, drawn(name, 3), name)
	}
}

// The samplers of one of the paper's figures have different greys.
func TestLooksInGrey(t *testing.T) {
	for _, together := range [][]string{
		{"random", "maskgit", "moment", "temp", "halton"}, {"random", "hybrid", "halton", "u-moment"},
	} {
		for i, a := range together {
			for _, b := range together[:i] {
				require.Greater(t, math.Abs(grey(a)-grey(b)), 20.0, "%s and %s", a, b)
			}
			require.Less(t, grey(a), 180.0, a) // on white
		}
	}
}

func grey(name string) float64 {
	c := looks[name].color
	return 0.299*float64(c.R) + 0.587*float64(c.G) + 0.114*float64(c.B)
}

// Each axis with a metric has bars of one standard error, also for a single seed. Charts without
// steps on an axis have them beside the points.
func TestBarsAndSteps(t *testing.T) {
	var results []Result
	for _, steps := range []int{7, 31} {
		m := Measure{Value: float64(90 - steps)}
		for g := range JackknifeGroups {
			m.LeaveOneOut = append(m.LeaveOneOut, m.Value+float64(g)/JackknifeGroups)
		}
		results = append(results, Result{Kind: "text",
			Point:   Point{Sampler: "random", Steps: steps, N: 40, Batch: 20},
			Metrics: Metrics{"perplexity": m, "entropy": m, "self_bleu": m}, Seconds: []float64{0.5, 0.4}})
	}
	for metric, names := range map[string][]string{
		"":          {"quality-steps", "quality-time", "perplexity-entropy"},
		"self_bleu": {"self_bleu-steps", "self_bleu-time", "self_bleu-entropy"},
		"entropy":   {"entropy-steps", "entropy-time"},
	} {
		charts, err := RequireCharts(results, metric)
		require.NoError(t, err)
		require.Len(t, charts, len(names))
		for i, c := range charts {
			require.Equal(t, names[i], c.Name)
			svg, err := c.SVG()
			require.NoError(t, err)
			k := c.Curves[0]
			require.Equal(t, []int{7, 31}, k.Steps)
			for j := range k.Error {
				require.Positive(t, k.Error[j], c.Name)
				require.Equal(t, c.Name == names[0] || i == 1, k.ErrorX[j] == 0, c.Name)
			}
			for _, want := range []string{">7</text>", ">31</text>",
				"Bars: one standard error to each side, of 40 samples."} {
				require.Contains(t, string(svg), want, c.Name)
			}
		}
	}
	_, err := RequireCharts(results, "score")
	require.EqualError(t, err, `metric is "score", want one of entropy, perplexity, self_bleu`)
	_, err = RequireCharts(nil, "")
	require.EqualError(t, err, "no results yet")
}

// Captions say what bars are, and nothing without bars.
func TestCaptions(t *testing.T) {
	with := []Curve{{X: []float64{1}, Y: []float64{1}, Error: []float64{0.1}}}
	for _, test := range []struct {
		name  string
		chart Chart
		want  string
	}{
		{"no bars", Chart{Curves: []Curve{{Error: []float64{0}, ErrorX: []float64{0}}}}, ""},
		{"no points", Chart{Curves: []Curve{{}}}, ""},
		{"unknown samples", Chart{Curves: with}, "Bars: one standard error to each side."},
		{"along X", Chart{SampleNote: "8 samples", Curves: []Curve{{ErrorX: []float64{1}}}},
			"Bars: one standard error to each side, of 8 samples."},
		{"an interval", Chart{BarMeaning: "95 % interval", SampleNote: "24 answers", Curves: with},
			"Bars: 95 % interval, of 24 answers."},
		{"samples and seeds", Chart{SampleNote: Table{Kind: "text", Results: []Result{
			{Kind: "text", Point: Point{N: 8, Seed: 1}}, {Kind: "text", Point: Point{N: 4, Seed: 2}},
			{Kind: "text", Point: Point{N: 8, Steps: 4}},
			{Kind: "image", Point: Point{N: 99}}}}.sampleNote(),
			Curves: with},
			"Bars: one standard error to each side, of 4 to 8 samples for each of 1 to 2 seeds."},
	} {
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, test.chart.caption()) })
	}
}

// Colours of samplers differ for readers who see all colours, and for those who lack one kind of
// cone (Machado, Oliveira, Fernandes 2009, severity 1): by 12 or more in CIELAB.
func TestColoursForColourBlindReaders(t *testing.T) {
	for sight, m := range map[string][3][3]float64{
		"all colours": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
		"protanopia": {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216},
			{-0.003882, -0.048116, 1.051998}},
		"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413},
			{-0.011820, 0.042940, 0.968881}},
		"tritanopia": {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602},
			{0.004733, 0.691367, 0.303900}},
	} {
		t.Run(sight, func(t *testing.T) {
			apart := func(a, b look) {
				if a == b {
					return // random under its two names
				}
				x, y := lab(a.color, m), lab(b.color, m)
				far := math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2])
				require.Greater(t, far, 12.0, "%v, %v", a, b)
			}
			for i, a := range extraLooks {
				for _, b := range extraLooks[:i] {
					apart(a, b)
				}
			}
			for name, a := range looks {
				for other, b := range looks {
					if name < other {
						apart(a, b)
					}
				}
			}
		})
	}
}

// lab returns a colour in CIELAB (white D65), as a matrix on linear RGB makes it.
func lab(c color.NRGBA, m [3][3]float64) [3]float64 {
	var rgb [3]float64
	for i, v := range []uint8{c.R, c.G, c.B} {
		rgb[i] = float64(v) / 255
		if rgb[i] <= 0.04045 {
			rgb[i] /= 12.92
		} else {
			rgb[i] = math.Pow((rgb[i]+0.055)/1.055, 2.4)
		}
	}
	times := func(m [3][3]float64, v [3]float64) (out [3]float64) {
		for i := range m {
			for j := range v {
				out[i] += m[i][j] * v[j]
			}
		}
		return out
	}
	seen := times(m, rgb)
	for i := range seen {
		seen[i] = min(1, max(0, seen[i]))
	}
	xyz := times([3][3]float64{{0.4339, 0.3762, 0.1899}, {0.2126, 0.7152, 0.0722},
		{0.0177, 0.1095, 0.8727}}, seen)
	for i, v := range xyz {
		if xyz[i] = 7.787*v + 16./116; v > 0.008856 {
			xyz[i] = math.Cbrt(v)
		}
	}
	return [3]float64{116*xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])}
}

// Numbers of steps cover neither each other nor points; a crowded chart leaves some out.
func TestStepLabels(t *testing.T) {
	for _, test := range []struct {
		name          string
		apart         float64 // between the points of a curve
		curves, least int     // labels, at least
	}{{"few points", 4, 1, 5}, {"two curves", 3, 2, 8}, {"crowded", 0.1, 3, 1}} {
		t.Run(test.name, func(t *testing.T) {
			c := Chart{Name: "x", X: "x", Y: "y"}
			for n := range test.curves {
				k := Curve{Name: "a", Error: make([]float64, 5), Steps: []int{4, 8, 16, 32, 64}}
				for i := range 5 {
					k.X = append(k.X, 10+test.apart*float64(i))
					k.Y = append(k.Y, 10+0.2*float64(n)+test.apart*float64(i%2))
				}
				c.Curves = append(c.Curves, k)
			}
			c.Curves = append(c.Curves, Curve{Name: "far", X: []float64{0, 30}, Y: []float64{0, 30},
				Error: make([]float64, 2)})
			width, height := c.pictureSize()
			var canvas recorder.Canvas
			require.NoError(t, c.drawOn(draw.NewCanvas(&canvas, width, height)))
			var places []vg.Rectangle
			for _, a := range canvas.Actions {
				if text, ok := a.(*recorder.FillString); ok && text.Size == vg.Points(7.5) {
					face := font.DefaultCache.Lookup(text.Font, text.Size)
					places = append(places, vg.Rectangle{Min: text.Point, Max: text.Point.Add(
						vg.Point{X: face.Width(text.String), Y: face.Extents().Ascent / 2})})
				}
			}
			require.GreaterOrEqual(t, len(places), test.least)
			require.LessOrEqual(t, len(places), 5*test.curves)
			for i, a := range places {
				for j, b := range places[:i] {
					require.False(t, overlaps(a, b), "labels %d and %d", i, j)
				}
			}
		})
	}
}

// A file of PDF has a page for each chart, whose operators save as often as they restore, and no
// texts: letters are outlines.
func TestPDF(t *testing.T) {
	chart := Chart{Name: "x", Title: "Fréchet, α", X: "steps", Y: "y", Curves: []Curve{
		{Name: "moment α=3", X: []float64{1, 2}, Y: []float64{1, 2}, Error: []float64{0.1, 0},
			Steps: []int{4, 8}, Method: Point{Sampler: "maskgit", Cache: 1}}}}
	data, err := PDF([]Chart{chart, chart})
	require.NoError(t, err)
	text := string(data)
	require.True(t, strings.HasPrefix(text, "%PDF-1."))
	require.Contains(t, text, "/Count 2")
	var pages []string
	for _, object := range strings.Split(text, "endobj") {
		_, packed, ok := strings.Cut(object, "stream\n")
		if !ok {
			continue
		}
		r, err := zlib.NewReader(strings.NewReader(packed))
		require.NoError(t, err)
		ops, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Len(t, regexp.MustCompile(`(?m)^q\b`).FindAll(ops, -1), strings.Count(string(ops), "Q\n"))
		require.NotContains(t, string(ops), "NaN")
		require.NotContains(t, string(ops), "BT") // letters are outlines
		require.Contains(t, string(ops), " c\n")
		pages = append(pages, string(ops))
	}
	require.Len(t, pages, 2)
	again, err := PDF([]Chart{chart, chart})
	require.NoError(t, err)
	require.Equal(t, data, again)
	_, err = PDF([]Chart{{Name: "none"}})
	require.EqualError(t, err, "plot none: nothing to draw")
}

// AUP of methods, by hand and by the authors' program (get_aup of AUP_leaderboard/aup_utils.py).
func TestAUP(t *testing.T) {
	point := func(method string, perPass, accuracy float64) Accuracy {
		return Accuracy{Method: method, PerPass: perPass, Accuracy: accuracy}
	}
	list := []Accuracy{point("one", 2, 0.9), point("two", 4, 0.78), point("two", 1, 0.8),
		point("lost", 3, 0.5), point("lost", 1, 0.9), point("none", 2, 0)}
	SetAUP(list)
	for i, want := range []float64{180, 244.4112026550245, 244.4112026550245, 90, 90, 0} {
		require.InDelta(t, want, list[i].AUP, 1e-9, "%s", list[i].Method)
	}
	SetAUP(nil)
	nothing := []Accuracy{point("none", 2, 0)}
	SetAUP(nothing)
	require.Zero(t, nothing[0].AUP)
}

// A table has a line for each result, and nothing where nothing is known.
func TestCSV(t *testing.T) {
	data, err := CSV([]Result{
		{Kind: "text", Point: Point{Sampler: "eb(moment, budget=2)", Steps: 4, Seed: 7, N: 8, Batch: 8,
			Extra: "top-p=0.9"}, Recipe: "eb steps=4", Seconds: []float64{2, 1.5}, Passes: 3.5,
			Metrics: Metrics{"perplexity": {Value: 20, Low: 0, High: 3.92}}},
		{Kind: "text", Point: Point{Sampler: "moment", Alpha: 3, Cache: 1, Steps: 8, N: 8, Batch: 4},
			Metrics: Metrics{"slips": {Value: 0}}}})
	require.NoError(t, err)
	require.Equal(t, "kind,name,sampler,steps,alpha,cache,bits,with,seed,n,batch,length,recipe,"+
		"full_passes,head_rows,batch_seconds,perplexity,perplexity_error,slips,slips_error\n"+
		"text,\"eb(moment, budget=2) top-p=0.9\",\"eb(moment, budget=2)\",4,,0,,top-p=0.9,7,8,8,,"+
		"eb steps=4,3.5,,1.5,20,1,,\n"+
		"text,moment+cache α=3,moment,8,3,1,,,0,8,4,,,,,,,,0,\n", string(data))
}
