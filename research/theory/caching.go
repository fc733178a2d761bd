package theory

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"unmask/generate"
	"unmask/model"
)

const cachingSteps = 8

// CheckCaching measures partial caching on networks: the total variation distance between the exact
// conditional p_(i|U+A) and the distribution that the second half of a step is drawn from, compared
// with that of p_(i|U), which is used without a second stage. Errors are of the mean over
// sequences.
func CheckCaching(ctx context.Context, o Options) ([]Result, error) {
	var out []Result
	for _, n := range o.Networks {
		refiner, ok := n.Denoiser.(model.Refiner)
		if !ok {
			return nil, fmt.Errorf("theory: %s has no partial passes", n.Name)
		}
		c := &caching{ctx: ctx, d: refiner, spec: n.Spec()}
		count := max(2, n.Sequences)
		run := generate.Options{Request: generate.Request{Recipe: generate.Recipe{Steps: cachingSteps,
			Cache: 1}, Seed: o.Seed}, N: count, Batch: count}
		cached, stale, before := make([][]float64, count), make([][]float64, count),
			make([][]int32, count)
		for i := range before {
			before[i] = c.spec.BlankTokens(c.spec.Length())
		}
		var points []Point
		for step, err := range generate.Run(ctx, refiner, run) {
			if err != nil {
				return nil, err
			}
			var with, without []float64 // of this step, a mean for each sequence
			for i := range step.Sequences {
				a, b, err := c.distances(before[i], step.Sequences[i].Opened)
				if err != nil {
					return nil, fmt.Errorf("theory: %s: %w", n.Name, err)
				}
				cached[i], stale[i] = append(cached[i], a...), append(stale[i], b...)
				copy(before[i], step.Sequences[i].Tokens)
				if len(a) > 0 {
					with, without = append(with, stat.Mean(a, nil)), append(without, stat.Mean(b, nil))
				}
			}
			points = append(points, at(n.Name+", cached", step.N, with)...)
			points = append(points, at(n.Name+", uncached", step.N, without)...)
		}
		means, reference, differences := 0.0, 0.0, make([]float64, count)
		for i := range differences {
			a, _ := interval(cached[i])
			b, _ := interval(stale[i])
			differences[i] = a - b
			means, reference = means+a/float64(count), reference+b/float64(count)
		}
		_, half := interval(differences)
		out = append(out, Result{Claim: "partial caching",
			Case:    fmt.Sprintf("%s, second half of %d steps, hybrid", n.Name, cachingSteps),
			Measure: "total variation from the conditional, against no second stage", Statistic: means,
			Error: half, Bound: reference, Points: points}.below())
	}
	return out, nil
}

// at returns the mean of a step as a point, none without values.
func at(curve string, step int, values []float64) []Point {
	if len(values) < 2 {
		return nil
	}
	mean, half := interval(values)
	return []Point{{curve, float64(step), mean, half}}
}

// caching is the work of Caching on one network.
type caching struct {
	ctx  context.Context
	d    model.Refiner
	spec model.Spec
}

// distances returns the two distances at each position that the second stage drew.
func (c *caching) distances(before []int32, opened []generate.OpenedPosition) (cached,
	stale []float64,
	err error) {
	var step, second []int32 // rows
	for _, o := range opened {
		step = append(step, int32(o.Position))
		if o.Stage > 0 {
			second = append(second, int32(o.Position))
		}
	}
	if len(second) == 0 {
		return nil, nil, nil
	}
	b := &model.Batch{Size: 1, Length: len(before), Tokens: slices.Clone(before),
		Cache: c.d.NewCache(1, len(before))}
	b.Time = []float64{c.masked(b.Tokens)}
	without, err := c.rows(second, func() (model.Marginals, error) { return c.d.Forward(c.ctx, b) })
	if err != nil {
		return nil, nil, err
	}
	for _, o := range opened {
		if o.Stage == 0 {
			b.Tokens[o.Position] = o.Token
		}
	}
	with, err := c.rows(second, func() (model.Marginals, error) { return c.d.Refine(c.ctx, b, step) })
	if err != nil {
		return nil, nil, err
	}
	b.Cache, b.Time[0] = nil, c.masked(b.Tokens)
	exact, err := c.rows(second, func() (model.Marginals, error) { return c.d.Forward(c.ctx, b) })
	for i := range exact {
		cached = append(cached, Variation(with[i], exact[i]))
		stale = append(stale, Variation(without[i], exact[i]))
	}
	return cached, stale, err
}

func (c *caching) masked(tokens []int32) float64 {
	return float64(c.spec.CountMasked(tokens)) / float64(len(tokens))
}

// rows returns the marginals of a pass at rows.
func (c *caching) rows(rows []int32, pass func() (model.Marginals, error)) ([][]float64, error) {
	m, err := pass()
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(rows))
	err = m.Visit(rows, func(i int, logits []float32) {
		logits = logits[:c.spec.Outcomes]
		p, most, sum := make([]float64, len(logits)), slices.Max(logits), 0.0
		for x, l := range logits {
			p[x] = math.Exp(float64(l - most))
			sum += p[x]
		}
		for x := range p {
			p[x] /= sum
		}
		out[i] = p
	})
	return out, err
}
