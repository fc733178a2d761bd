package experiments

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Table looks up results by method and number of steps.
type Table struct {
	Kind    string
	Results []Result

	// N selects the points of N samples; 0 selects all.
	N int

	// More gives metrics the errors that More times the samples would have; 0 and 1 mean their own.
	More float64

	// onLookup, if not nil, is called for each method and number of steps that is looked up. So a
	// verdict learns which points it depends on.
	onLookup func(m Point, steps int)
}

// methodOnly returns the point without the parameters that vary along a curve.
func (p Point) methodOnly() Point {
	return Point{Sampler: p.Sampler, Bits: p.Bits, Alpha: p.Alpha, Cache: p.Cache, Extra: p.Extra}
}

// contains reports whether the table looks up a result.
func (t Table) contains(r Result) bool { return r.Kind == t.Kind && (t.N == 0 || r.N == t.N) }

// sampleNote says how many samples a point has, such as "64 samples for each of 3 seeds".
func (t Table) sampleNote() string {
	var samples []int
	seeds := map[methodSteps]int{}
	for _, r := range t.Results {
		if t.contains(r) {
			samples = append(samples, r.N)
			seeds[methodSteps{r.methodOnly(), r.Steps}]++
		}
	}
	if len(samples) == 0 {
		return ""
	}
	between := func(low, high int) string {
		if low == high {
			return fmt.Sprint(low)
		}
		return fmt.Sprintf("%d to %d", low, high)
	}
	text := between(slices.Min(samples), slices.Max(samples)) + " samples"
	if n := slices.Sorted(maps.Values(seeds)); n[len(n)-1] > 1 {
		text += " for each of " + between(n[0], n[len(n)-1]) + " seeds"
	}
	return text
}

// resultsAt returns a method's results at a number of steps, one for each seed.
func (t Table) resultsAt(m Point, steps int) []Result {
	if t.onLookup != nil {
		t.onLookup(m, steps)
	}
	var out []Result
	for _, r := range t.Results {
		if t.contains(r) && r.methodOnly() == m && r.Steps == steps {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Result) int { return int(int64(a.Seed) - int64(b.Seed)) })
	return out
}

// metric returns the mean over seeds, NaN if it was not measured.
func (t Table) metric(m Point, steps int, name string) Measure {
	var measures []Measure
	results := t.resultsAt(m, steps)
	for _, r := range results {
		if v, ok := r.Metrics[name]; ok {
			measures = append(measures, v)
		}
	}
	if len(measures) == 0 || len(measures) < len(results) {
		return Measure{Value: math.NaN()}
	}
	return averageMeasures(measures...).withMoreSamples(t.More)
}

// leastSeconds returns the least time of a batch. The least and not the mean, because other
// programs can only add to it. It is NaN if nothing was measured.
func (t Table) leastSeconds(m Point, steps int) float64 {
	var seconds []float64
	for _, r := range t.resultsAt(m, steps) {
		seconds = append(seconds, r.Seconds...)
	}
	if len(seconds) == 0 {
		return math.NaN()
	}
	return slices.Min(seconds)
}

// methods returns the methods in the order of their first results.
func (t Table) methods() []Point {
	var out []Point
	for _, r := range t.Results {
		if t.contains(r) && !slices.Contains(out, r.methodOnly()) {
			out = append(out, r.methodOnly())
		}
	}
	return out
}

// stepCounts returns the numbers of steps of a method, ascending.
func (t Table) stepCounts(m Point) []int {
	var out []int
	for _, r := range t.Results {
		if t.contains(r) && r.methodOnly() == m && !slices.Contains(out, r.Steps) {
			out = append(out, r.Steps)
		}
	}
	slices.Sort(out)
	return out
}

// metricCurve returns a metric of a method against x, at numbers of steps; nil takes all that were
// measured. A value that is NaN gives no point.
func (t Table) metricCurve(m Point, steps []int, name string,
	x func(m Point, steps int) Measure) Curve {
	c := Curve{Name: m.Name(), Method: m}
	if steps == nil {
		steps = t.stepCounts(m)
	}
	for _, n := range steps {
		position := x(m, n)
		v := t.metric(m, n, name)
		if !math.IsNaN(position.Value + v.Value) {
			c.addPoint(n, position, v)
		}
	}
	return c
}

// atSteps, Table.atTime and Table.atMetric are what a metric is drawn against.
func atSteps(_ Point, steps int) Measure { return Measure{Value: float64(steps)} }

func (t Table) atTime(m Point, steps int) Measure {
	return Measure{Value: t.leastSeconds(m, steps)}
}

func (t Table) atMetric(metric string) func(m Point, steps int) Measure {
	return func(m Point, steps int) Measure { return t.metric(m, steps, metric) }
}
