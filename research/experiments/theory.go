package experiments

import (
	"cmp"
	"maps"
	"slices"

	"unmask/research/theory"
)

// claimCharts are the charts of those claims of package theory that have curves.
var claimCharts = map[string]Chart{
	"proposition 1": {
		Name:     "proposition1",
		Title:    "Gumbel-top-3 of 5, each order",
		X:        "probability by the formula",
		Y:        "measured frequency",
		LogX:     true,
		LogY:     true,
		Unjoined: true,
	},
	"theorem 1": {
		Name:  "theorem1",
		Title: "Total variation of maskgit and moment, one round",
		X:     "N / k²",
		Y:     "total variation",
		LogX:  true,
		LogY:  true,
	},
	"implicit temperature": {
		Name:  "temperature",
		Title: "Tokens that maskgit commits",
		X:     "p of the model",
		Y:     "frequency",
	},
	"equation 5": {
		Name:  "equation5",
		Title: "D(q||p) of two rounds, and its bound a-b+c (Markov chain of 6)",
		X:     "positions of the first round",
		Y:     "nats",
	},
	"partial caching": {
		Name:  "caching",
		Title: "Second half of a step, from the exact conditional",
		X:     "step",
		Y:     "total variation",
	},
}

// ChartedClaims returns the claims of package theory that have a chart, sorted.
func ChartedClaims() []string { return slices.Sorted(maps.Keys(claimCharts)) }

// HasChart reports whether one of claims has a chart; none are all.
func HasChart(claims []string) bool {
	return len(claims) == 0 ||
		slices.ContainsFunc(claims, func(c string) bool { return claimCharts[c].Name != "" })
}

// TheoryCharts draws results of theory.Run, one chart for each claim that has curves.
func TheoryCharts(results []theory.Result) []Chart {
	var charts []Chart
	for _, claim := range theory.Claims() {
		chart, ok := claimCharts[claim]
		chart.BarMeaning = "half of a 95 % interval to each side"
		var points []theory.Point
		for _, r := range results {
			if ok && r.Claim == claim {
				points = append(points, r.Points...)
			}
		}
		chart.addPoints(points)
		if len(chart.Curves) > 0 {
			charts = append(charts, chart)
		}
	}
	return charts
}

// addPoints appends points, by their X, to the chart's curves of the same names.
func (c *Chart) addPoints(points []theory.Point) {
	place := map[string]int{}
	for _, p := range points {
		if _, ok := place[p.Curve]; !ok {
			place[p.Curve] = len(c.Curves)
			c.Curves = append(c.Curves, Curve{Name: p.Curve})
		}
	}
	for _, p := range slices.SortedStableFunc(slices.Values(points), func(a, b theory.Point) int {
		return cmp.Compare(a.X, b.X)
	}) {
		curve := &c.Curves[place[p.Curve]]
		curve.X = append(curve.X, p.X)
		curve.Y = append(curve.Y, p.Y)
		curve.Error = append(curve.Error, p.Error)
	}
}
