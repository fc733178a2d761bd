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

// cachingSteps are the steps of a run of CheckCaching.
const cachingSteps = 8

// CheckCaching measures partial caching on networks: the total variation distance between the exact
// conditional p_(i|U+A) and the distribution that the second half of a step is drawn from, compared
// with that of p_(i|U), which is used without a second stage. Errors are of the mean over
// sequences.
func CheckCaching(ctx context.Context, o Options) ([]Result, error) {
	var results []Result
	for _, n := range o.Networks {
		r, err := measureCaching(ctx, n, o.Seed)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// measureCaching is CheckCaching for one network.
func measureCaching(ctx context.Context, n Network, seed uint64) (Result, error) {
	refiner, ok := n.Denoiser.(model.Refiner)
	if !ok {
		return Result{}, fmt.Errorf("theory: %s has no partial passes", n.Name)
	}
	c := &caching{ctx: ctx, d: refiner, spec: n.Spec()}
	count := max(2, n.Sequences)
	recipe := generate.Recipe{Steps: cachingSteps, Cache: 1}
	run := generate.Options{
		Request: generate.Request{Recipe: recipe, Seed: seed},
		N:       count,
		Batch:   count,
	}

	cached := make([][]float64, count) // distances of each sequence
	stale := make([][]float64, count)
	tokensBefore := make([][]int32, count) // tokens of each sequence before the step
	for i := range tokensBefore {
		tokensBefore[i] = c.spec.BlankTokens(c.spec.Length())
	}
	var points []Point
	for step, err := range generate.Run(ctx, refiner, run) {
		if err != nil {
			return Result{}, err
		}
		var stepCached, stepStale []float64 // a mean for each sequence
		for i := range step.Sequences {
			a, b, err := c.distances(tokensBefore[i], step.Sequences[i].Opened)
			if err != nil {
				return Result{}, fmt.Errorf("theory: %s: %w", n.Name, err)
			}
			cached[i] = append(cached[i], a...)
			stale[i] = append(stale[i], b...)
			copy(tokensBefore[i], step.Sequences[i].Tokens)
			if len(a) > 0 {
				stepCached = append(stepCached, stat.Mean(a, nil))
				stepStale = append(stepStale, stat.Mean(b, nil))
			}
		}
		points = append(points, meanPoint(n.Name+", cached", step.N, stepCached)...)
		points = append(points, meanPoint(n.Name+", uncached", step.N, stepStale)...)
	}

	mean := 0.0
	reference := 0.0
	differences := make([]float64, count)
	for i := range differences {
		a, _ := meanInterval(cached[i])
		b, _ := meanInterval(stale[i])
		differences[i] = a - b
		mean += a / float64(count)
		reference += b / float64(count)
	}
	_, half := meanInterval(differences)
	r := Result{
		Claim:     "partial caching",
		Case:      fmt.Sprintf("%s, second half of %d steps, hybrid", n.Name, cachingSteps),
		Measure:   "total variation from the conditional, against no second stage",
		Statistic: mean,
		Error:     half,
		Bound:     reference,
		Points:    points,
	}
	return r.requireBelow(), nil
}

// meanPoint returns the mean of a step as a point, none with fewer than two values.
func meanPoint(curve string, step int, values []float64) []Point {
	if len(values) < 2 {
		return nil
	}
	mean, half := meanInterval(values)
	return []Point{{curve, float64(step), mean, half}}
}

// caching is the work of CheckCaching on one network.
type caching struct {
	ctx  context.Context
	d    model.Refiner
	spec model.Spec
}

// distances returns the two distances at each position that the second stage drew.
func (c *caching) distances(tokensBefore []int32, opened []generate.OpenedPosition) (cached,
	stale []float64, err error) {
	var step, second []int32 // rows of the step, and of its second stage
	for _, o := range opened {
		step = append(step, int32(o.Position))
		if o.Stage > 0 {
			second = append(second, int32(o.Position))
		}
	}
	if len(second) == 0 {
		return nil, nil, nil
	}
	b := &model.Batch{
		Size:   1,
		Length: len(tokensBefore),
		Tokens: slices.Clone(tokensBefore),
		Cache:  c.d.NewCache(1, len(tokensBefore)),
	}
	b.Time = []float64{c.maskedShare(b.Tokens)}
	without, err := c.marginalsAt(second, func() (model.Marginals, error) {
		return c.d.Forward(c.ctx, b)
	})
	if err != nil {
		return nil, nil, err
	}
	for _, o := range opened {
		if o.Stage == 0 {
			b.Tokens[o.Position] = o.Token
		}
	}
	with, err := c.marginalsAt(second, func() (model.Marginals, error) {
		return c.d.Refine(c.ctx, b,
			step)
	})
	if err != nil {
		return nil, nil, err
	}
	b.Cache = nil
	b.Time[0] = c.maskedShare(b.Tokens)
	exact, err := c.marginalsAt(second, func() (model.Marginals, error) {
		return c.d.Forward(c.ctx,
			b)
	})
	for i := range exact {
		cached = append(cached, Variation(with[i], exact[i]))
		stale = append(stale, Variation(without[i], exact[i]))
	}
	return cached, stale, err
}

// maskedShare returns the share of masks, which is the time of a pass.
func (c *caching) maskedShare(tokens []int32) float64 {
	return float64(c.spec.CountMasked(tokens)) / float64(len(tokens))
}

// marginalsAt returns the marginals of a pass at rows.
func (c *caching) marginalsAt(rows []int32,
	pass func() (model.Marginals, error)) ([][]float64, error) {
	m, err := pass()
	if err != nil {
		return nil, err
	}
	list := make([][]float64, len(rows))
	err = m.Visit(rows, func(i int, logits []float32) {
		logits = logits[:c.spec.Outcomes]
		p := make([]float64, len(logits))
		top := slices.Max(logits)
		sum := 0.0
		for x, l := range logits {
			p[x] = math.Exp(float64(l - top))
			sum += p[x]
		}
		for x := range p {
			p[x] /= sum
		}
		list[i] = p
	})
	return list, err
}
