package experiments

import "math"

// Figures draws the paper's figures from results.
func Figures(results []Result, s Size) []Chart {
	var charts []Chart
	if t := (Table{Kind: "image", Results: results, N: s.Image.N}); len(t.methods()) > 0 {
		charts = append(charts, t.addSampleNotes(imageFigures(t, s.Image))...)
	}
	if t := (Table{Kind: "text", Results: results, N: s.Text.N}); len(t.methods()) > 0 {
		charts = append(charts, t.addSampleNotes(textFigures(t, Table{
			Kind:    "text",
			Results: results,
			N:       latencyN,
		}, s.Text))...)
	}
	return charts
}

// addSampleNotes returns charts whose captions say how many samples a point has.
func (t Table) addSampleNotes(charts []Chart) []Chart {
	for i := range charts {
		charts[i].SampleNote = t.sampleNote()
	}
	return charts
}

// temperatureMethods returns the methods of figures 3, 5 (left) and 6 (left).
func temperatureMethods(g Grid) []Point {
	return append(g.methodsWithAlphas(temperatureSamplers...), Point{Sampler: "random"})
}

// withCurves adds the curves of methods that have results: of a metric at numbers of steps, against
// x.
func (c Chart) withCurves(t Table, methods []Point, steps []int, metric string,
	x func(m Point, steps int) Measure) Chart {
	for _, m := range methods {
		if k := t.metricCurve(m, steps, metric, x); len(k.X) > 0 {
			c.Curves = append(c.Curves, k)
		}
	}
	return c
}

// imageFigures returns figure 3 and the left of figure 4.
func imageFigures(t Table, g Grid) []Chart {
	methods := append(temperatureMethods(g), Point{Sampler: "halton"})
	var charts []Chart
	for _, figure := range []struct {
		name   string
		metric string
	}{{"figure3", "frechet"},
		{"figure3-score", "score"}} {
		c := Chart{
			Name:          figure.name,
			Title:         "Figure 3: image quality against steps",
			X:             "steps",
			Y:             metricAxes[figure.metric].label,
			LogX:          true,
			TicksAtValues: true,
		}.
			withCurves(t, methods, g.Steps, figure.metric, atSteps)
		if len(c.Curves) > 0 {
			charts = append(charts, c)
		}
	}
	c := Chart{
		Name:  "figure4-image",
		Title: "Figure 4, left: images, quality against time",
		X:     "seconds a batch",
		Y:     "Fréchet distance, best α (lower is better)",
		LogX:  true,
	}
	for _, cache := range []int{0, 1} {
		if k := t.bestAlphaCurve(g, cache); len(k.X) > 0 {
			c.Curves = append(c.Curves, k)
		}
	}
	return append(charts, c)
}

// bestAlphaCurve returns moment's curve with the best α, of least distance, at each number of
// steps.
func (t Table) bestAlphaCurve(g Grid, cache int) Curve {
	best := Curve{Name: "moment", Method: Point{Sampler: "moment", Cache: cache}}
	if cache > 0 {
		best.Name += "+cache"
	}
	for _, n := range g.Steps {
		lowest := Measure{Value: math.Inf(1)}
		bestMethod := Point{}
		for _, alpha := range g.Alphas {
			m := Point{Sampler: "moment", Alpha: alpha, Cache: cache}
			if v := t.metric(m, n, "frechet"); v.Value < lowest.Value {
				lowest = v
				bestMethod = m
			}
		}
		if seconds := t.leastSeconds(bestMethod, n); !math.IsNaN(seconds) {
			best.addPoint(n, Measure{Value: seconds}, lowest)
		}
	}
	return best
}

// textFigures returns the right of figure 4, figures 5 and 6, and the stories. single has the
// results whose samples were made one at a time.
func textFigures(t, single Table, g Grid) []Chart {
	perplexity := metricAxes["perplexity"].label
	contradictions := Chart{
		Name:          "stories",
		Title:         "Contradictions against steps",
		X:             "steps",
		Y:             metricAxes["contradictions"].label,
		LogX:          true,
		TicksAtValues: true,
	}.
		withCurves(t, storyMethods(g), g.Steps, "contradictions", atSteps)
	charts := []Chart{
		Chart{
			Name:  "figure4-text",
			Title: "Figure 4, right: text, quality against time",
			X:     "seconds a batch",
			Y:     perplexity,
			LogX:  true,
			LogY:  true,
		}.
			withCurves(t, g.timedMethods(), g.Steps, "perplexity", t.atTime),
		Chart{
			Name:          "figure5-entropy",
			Title:         "Figure 5, left: entropy against steps",
			X:             "steps",
			Y:             metricAxes["entropy"].label,
			LogX:          true,
			TicksAtValues: true,
		}.
			withCurves(t, temperatureMethods(g), g.Steps, "entropy", atSteps),
		Chart{
			Name:  "figure5-tradeoff",
			Title: "Figure 5, right: perplexity against entropy",
			X:     metricAxes["entropy"].label,
			Y:     perplexity,
			LogY:  true,
		}.
			withCurves(t, g.unbiasedMethods(), g.Steps, "perplexity", t.atMetric("entropy")),
		Chart{
			Name:          "figure6-perplexity",
			Title:         "Figure 6, left: perplexity against steps",
			X:             "steps",
			Y:             perplexity,
			LogX:          true,
			LogY:          true,
			TicksAtValues: true,
		}.
			withCurves(t, temperatureMethods(g), g.Steps, "perplexity", atSteps),
		Chart{
			Name:  "figure6-latency",
			Title: "Figure 6, right: quality against time, a batch of one",
			X:     "seconds a sample",
			Y:     perplexity,
			LogX:  true,
			LogY:  true,
		}.
			withCurves(t, g.timedMethods(), g.Steps, "perplexity", single.atTime),
	}
	if len(contradictions.Curves) > 0 {
		charts = append(charts, contradictions)
	}
	return charts
}

// storyMethods returns the methods whose contradictions are drawn: the unbiased ones, and those
// with temperature at the middle one.
func storyMethods(g Grid) []Point {
	methods := g.unbiasedMethods()
	for _, name := range temperatureSamplers {
		methods = append(methods, Point{Sampler: name, Alpha: g.Alphas[len(g.Alphas)/2]})
	}
	return methods
}
