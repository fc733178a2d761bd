package experiments

import (
	"fmt"
	"math"
	"slices"
)

// Verdict says whether a claim of the paper holds on the measured model.
type Verdict struct {
	Claim  string `json:"claim"`
	Figure string `json:"figure"`

	// Law is the exact law on which the claim was tried; "" is the measured model.
	Law string `json:"law,omitempty"`

	// Rule is the rule that decides Holds, as a sentence.
	Rule string `json:"rule"`

	Numbers []Number `json:"numbers"`
	Holds   bool     `json:"holds"`

	// Decided is false if neither the claim nor its opposite is beyond chance.
	Decided bool `json:"decided"`

	// SamplesFactor is, for an undecided claim, about how many times its samples would decide it if
	// the values stayed as they are; 0 if more than 16384 times would be needed.
	SamplesFactor float64 `json:"times,omitempty"`

	// kind is that of the model, text, image or an exact law's, and dependsOn what the verdict was
	// computed of.
	kind      string
	dependsOn []methodSteps
}

// methodSteps is a method at a number of steps.
type methodSteps struct {
	method Point
	steps  int
}

// Number is a quantity behind a verdict, with its standard error.
type Number struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Error float64 `json:"error"`
}

// newNumber returns a measure as a quantity behind a verdict.
func newNumber(name string, m Measure) Number { return Number{name, m.Value, m.Error()} }

// hasError reports whether the measure has a standard error.
func (m Measure) hasError() bool { return len(m.LeaveOneOut) > 0 && !math.IsNaN(m.Value) }

// judgeBelow completes v, which holds if the mean of measures is below 0.
func (v Verdict) judgeBelow(name string, measures []Measure) Verdict {
	mean := averageMeasures(measures...)
	v.Numbers = append(v.Numbers, newNumber(name, mean))
	return v.decide([]test{below(mean, 0)}, []test{above(mean, 0)})
}

// maxTimes is the largest factor on the number of samples that the search for Times tries.
const maxTimes = 1 << 14

// Verdicts judges the paper's claims by the results at the size's points.
func Verdicts(results []Result, s Size) []Verdict {
	out := judgeClaims(results, s, 1)
	// Steps of a quarter: errors are not known more precisely.
	for factor := 1.25; factor <= maxTimes; factor *= 1.25 {
		judged := judgeClaims(results, s, factor)
		for i := range out {
			if v := &out[i]; !v.Decided && v.SamplesFactor == 0 && judged[i].Decided {
				v.SamplesFactor = factor
			}
		}
	}
	return out
}

// judgeClaims judges as if there were factor times the samples with the same values: the errors
// alone shrink.
func judgeClaims(results []Result, s Size, factor float64) (out []Verdict) {
	type judged struct {
		kind   string
		grid   Grid
		claims func(t Table, g Grid, judge func(Verdict))
	}
	list := []judged{{"image", s.Image, judgeImageClaims}, {"text", s.Text, judgeTextClaims}}
	for _, law := range ExactLaws {
		list = append(list, judged{law.Kind, s.Exact, judgeExactClaims})
	}
	for _, k := range list {
		var needs []methodSteps
		t := Table{Kind: k.kind, Results: results, N: k.grid.N, More: factor}
		if len(t.methods()) == 0 {
			continue
		}

		// A verdict depends on the points that were looked up since the one before it.
		t.onLookup = func(m Point, steps int) {
			if c := (methodSteps{m, steps}); !slices.Contains(needs, c) {
				needs = append(needs, c)
			}
		}
		k.claims(t, k.grid, func(v Verdict) {
			v.kind = k.kind
			if law, ok := exactLaw(k.kind); ok {
				v.Law = law.Kind
			}
			v.dependsOn = needs
			needs = nil
			v.Numbers = slices.DeleteFunc(v.Numbers,
				func(n Number) bool { return math.IsNaN(n.Value) || math.IsInf(n.Value, 0) })
			out = append(out, v)
		})
	}
	return out
}

// judgeImageClaims calls judge with the verdict on each claim about images, in the order of
// figures.
func judgeImageClaims(t Table, g Grid, judge func(Verdict)) {
	judge(t.judgeFollows(g, "moment", "Moment follows MaskGIT", "3", "frechet"))
	judge(t.judgeFollows(g, "temp", "temperature sampling alone explains most of MaskGIT", "3",
		"frechet"))
	judge(t.judgeDegradation(g))
	judge(t.judgeCachePerStep(g, "frechet", "partial caching gains per step, images", "4",
		g.methodsWithAlphas("moment")))
	judge(t.judgeCachePerSecond(g, "frechet", "partial caching gains per second, images", "4",
		g.methodsWithAlphas("moment")))
}

// judgeDegradation compares maskgit at the most steps with few.
func (t Table) judgeDegradation(g Grid) Verdict {
	first := Point{Sampler: "maskgit"}
	last := g.Steps[len(g.Steps)-1]
	early := g.Steps[0] // the most steps of the grid that are still few
	for _, n := range g.Steps {
		if n <= 8 {
			early = n
		}
	}
	var degraded []Measure
	v := Verdict{
		Claim:  "MaskGIT degrades with many steps",
		Figure: "3",
		Rule: fmt.Sprintf("the Fréchet distance at %d steps less that at %d, mean over α, is above 0",
			last, early),
	}
	for _, first.Alpha = range g.Alphas {
		d := combine(subtract, t.metric(first, last, "frechet"), t.metric(first, early, "frechet"))
		v.Numbers = append(v.Numbers, newNumber(fmt.Sprintf("change, MaskGIT α=%g", first.Alpha), d))
		degraded = append(degraded, d)
	}
	mean := averageMeasures(degraded...)
	random := Point{Sampler: "random"}
	v.Numbers = append(v.Numbers, newNumber("change, MaskGIT, mean", mean),
		newNumber("change, Random",
			combine(subtract, t.metric(random, last, "frechet"), t.metric(random, early, "frechet"))))
	return v.decide([]test{above(mean, 0)}, []test{below(mean, 0)})
}

// judgeTextClaims calls judge with the verdict on each claim about text, in the order of figures.
// Those about stories are left out for a model that writes none.
func judgeTextClaims(t Table, g Grid, judge func(Verdict)) {
	// Asked of a table of its own, so that the first verdict does not seem to depend on it.
	stories := Table{Kind: t.Kind, Results: t.Results, N: t.N}.metric(Point{Sampler: "random"},
		g.Steps[0], "contradictions")
	random := Point{Sampler: "random"}
	hybrid := Point{Sampler: "hybrid", Alpha: g.MomentAlpha}
	pairs := []Point{random, hybrid}
	judge(t.judgeCachePerStep(g, "perplexity", cachePerStep, "4", pairs))
	judge(t.judgeCachePerSecond(g, "perplexity", cachePerSecond, "4", pairs))
	judge(t.judgeSpeedup(g))
	judge(t.judgeFollows(g, "moment", followsInEntropy, "5", "entropy"))
	judge(t.judgeEntropyCost(g))
	judge(t.judgeCrossing(g))
	judge(t.judgeThroughout(g))
	judge(t.judgeFollows(g, "moment", followsInPerplexity, "6", "perplexity"))
	judge(t.judgeFollows(g, "temp", temperatureExplains, "6", "perplexity"))
	judge(t.judgeArithmetic(g, "vanilla", arithmeticBiases))
	judge(t.judgeArithmetic(g, fixedName, arithmeticDoesNotBias))
	if !math.IsNaN(stories.Value) {
		judge(t.judgeCachePerStep(g, "contradictions", "partial caching gains per step, in contradictions",
			"stories", pairs))
		judge(t.judgeContradictions(g, hybrid, random, "Hybrid contradicts itself less than Random"))
		judge(t.judgeFollows(g, "moment", "Moment follows MaskGIT, in contradictions", "stories",
			"contradictions"))
	}
}

// subtract returns the first value less the second, for combine.
func subtract(v []float64) float64 { return v[0] - v[1] }

// comparisonScale returns the function in which a metric is compared and its name: the logarithm of
// perplexity; entropy and distances, which may be near 0, unchanged.
func comparisonScale(metric string) (f func(float64) float64, name string) {
	switch metric {
	case "perplexity":
		return math.Log, "log perplexity"
	case "frechet":
		return identity, "the Fréchet distance"
	}
	return identity, metric
}

// judgeFollows measures how far a sampler goes from random (0) to maskgit (1), over all α and
// steps: 1 - sum d_s*d_r / sum d_r^2, where d_s and d_r are the distances of the sampler and of
// random from maskgit.
func (t Table) judgeFollows(g Grid, sampler, claim, figure, metric string) Verdict {
	var inputs []Measure
	var gaps []Measure
	f, _ := comparisonScale(metric)
	for _, alpha := range g.Alphas {
		for _, n := range g.Steps {
			three := []Measure{t.metric(Point{Sampler: "maskgit", Alpha: alpha}, n, metric),
				t.metric(Point{Sampler: sampler, Alpha: alpha}, n, metric),
				t.metric(Point{Sampler: "random"}, n, metric)}
			gaps = append(gaps, combine(func(v []float64) float64 { return f(v[1]) - f(v[0]) }, three...))
			inputs = append(inputs, three...)
		}
	}

	// along/square is the slope of the line through the origin that fits d_s to d_r best in least
	// squares, so points where the two rules hardly differ have little weight.
	share := combine(func(v []float64) float64 {
		var along, square float64
		for i := 0; i < len(v); i += 3 {
			ds := f(v[i+1]) - f(v[i])
			dr := f(v[i+2]) - f(v[i])
			along += ds * dr
			square += dr * dr
		}
		return 1 - along/square
	}, inputs...)
	v := Verdict{
		Claim:  claim,
		Figure: figure,
		Numbers: []Number{
			newNumber("share of the way from random to maskgit", share),
			newNumber("mean difference from maskgit", averageMeasures(gaps...)),
		},
	}
	if sampler == "temp" {
		v.Rule = "its share of the way from random to maskgit, over all α and steps, is above a half"
		return v.decide([]test{above(share, 0.5)}, []test{below(share, 0.5)})
	}
	v.Rule = "its share of the way from random to maskgit, over all α and steps, is within a half of 1: " +
		"nearer to maskgit than to random, and not as far beyond it"
	return v.decideEqual(within(share, 1, 0.5), outside(share, 1, 0.5))
}

// judgeCachePerStep compares pairs at equal steps.
func (t Table) judgeCachePerStep(g Grid, metric, claim, figure string, pairs []Point) Verdict {
	f, name := comparisonScale(metric)
	v := Verdict{
		Claim:  claim,
		Figure: figure,
		Rule:   name + " with cache less that without, mean over all steps and samplers, is below 0",
	}
	var changes []Measure
	for _, m := range pairs {
		cached := m
		cached.Cache = 1
		var measures []Measure
		for _, n := range g.Steps {
			measures = append(measures, combine(func(v []float64) float64 { return f(v[0]) - f(v[1]) },
				t.metric(cached, n, metric), t.metric(m, n, metric)))
		}
		v.Numbers = append(v.Numbers,
			newNumber("change of "+name+", "+m.Name(), averageMeasures(measures...)))
		changes = append(changes, measures...)
	}
	return v.judgeBelow("change, mean", changes)
}

// logRatio returns the logarithm of the first value over the second, for combine.
func logRatio(v []float64) float64 { return math.Log(v[0]) - math.Log(v[1]) }

// judgeCachePerSecond compares pairs at equal time: the curve without cache is interpolated,
// linearly in the logarithm of time, at those times of the curve with cache that lie within it.
func (t Table) judgeCachePerSecond(g Grid, metric, claim, figure string, pairs []Point) Verdict {
	f, name := comparisonScale(metric)
	v := Verdict{
		Claim:  claim,
		Figure: figure,
		Rule: name + " with cache less that without at the same seconds a batch, mean over samplers and " +
			"the times that both span, is below 0",
	}
	var changes, overheads []Measure
	for _, m := range pairs {
		cached := m
		cached.Cache = 1
		for i := range g.Steps {
			slower := t.leastSeconds(cached, g.Steps[i])
			overheads = append(overheads, Measure{Value: slower/t.leastSeconds(m, g.Steps[i]) - 1})
			for j := 0; j+1 < len(g.Steps); j++ {
				a := t.leastSeconds(m, g.Steps[j])
				b := t.leastSeconds(m, g.Steps[j+1])
				if !(a <= slower && slower <= b && a < b) {
					continue
				}
				w := math.Log(slower/a) / math.Log(b/a)
				changes = append(changes, combine(func(v []float64) float64 {
					return f(v[0]) - (1-w)*f(v[1]) - w*f(v[2])
				}, t.metric(cached, g.Steps[i], metric), t.metric(m, g.Steps[j], metric),
					t.metric(m, g.Steps[j+1], metric)))
				break
			}
		}
	}
	overhead := newNumber("more time a step with cache", averageMeasures(overheads...))
	v.Numbers = append(v.Numbers, overhead)
	if len(changes) == 0 {
		return v
	}
	return v.judgeBelow("change at equal time, mean", changes)
}
