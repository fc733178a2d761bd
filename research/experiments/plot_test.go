package experiments

import (
	"bytes"
	"image/color"
	"image/png"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
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
		check(evenly{}, low, low+width)
		if low > 0 {
			check(decades{}, low, low+width)
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
			_, err := c.add(p, &legend, i)
			require.NoError(t, err)
		}
		c.scale(p)
		for _, k := range c.Curves {
			for i := range k.X {
				bars := errorBars{plotter.XYs{{X: k.X[i], Y: k.Y[i]}}, k.Error[i:], nil, log, log}
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
		for g := range Groups {
			m.Without = append(m.Without, m.Value+float64(g)/Groups)
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
		charts, err := ChartsOf(results, metric)
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
				require.Equal(t, c.Name == names[0] || i == 1, k.Across[j] == 0, c.Name)
			}
			for _, steps := range []string{">7</text>", ">31</text>"} {
				require.Contains(t, string(svg), steps, c.Name)
			}
		}
	}
	_, err := ChartsOf(results, "score")
	require.EqualError(t, err, `metric is "score", want one of entropy, perplexity, self_bleu`)
	_, err = ChartsOf(nil, "")
	require.EqualError(t, err, "no results yet")
}
