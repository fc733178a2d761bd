package theory

import (
	"context"
	"math"
	"slices"

	"unmask/generate"
	"unmask/samplers"
)

// CheckTemperature checks equation 4: the tokens that MaskGIT keeps follow p^beta, normalised,
// with beta = 1+1/alpha, and not p. It uses 512 positions with the same p.
func CheckTemperature(ctx context.Context, o Options) ([]Result, error) {
	const (
		n     = 512
		steps = 64
		alpha = 3.0
	)
	p := []float64{0.5, 0.3, 0.15, 0.05}
	tempered := make([]float64, len(p)) // p^beta
	norm := 0.0
	for x, v := range p {
		tempered[x] = math.Pow(v, 1+1/alpha)
		norm += tempered[x]
	}
	// The first step has alpha_1 = alpha.
	sampler := samplers.MaskGIT{Alpha: alpha * steps / (steps - 1)}
	run := generate.Options{
		Request: generate.Request{
			Recipe: generate.Recipe{Sampler: sampler, Schedule: samplers.Uniform, Steps: steps},
			Seed:   o.Seed,
		},
		N: max(1, o.Draws/5),
	}
	run.Batch = run.N
	count := make([]float64, len(p))
	total := 0.0
	for step, err := range generate.Run(ctx, newConstantMarginals(slices.Repeat([][]float64{p}, n)),
		run) {
		if err != nil {
			return nil, err
		}
		for i := range step.Sequences {
			for _, opened := range step.Sequences[i].Opened {
				count[opened.Token]++
				total++
			}
		}
		break // later steps have another alpha
	}
	const claim = "implicit temperature"
	const name = "maskgit, first of 64 steps, N=512 k=8 alpha=3"
	r := compareCounts(claim, name, "chi-square against p^beta", count, Scale(tempered, total/norm))
	r.Points = slices.Concat(frequencyPoints("committed", p, count, tempered),
		frequencyPoints("p^beta", p, tempered, nil), frequencyPoints("p", p, p, nil))
	return []Result{r.requireBelow(),
		compareCounts(claim, name, "chi-square against p", count, Scale(p, total)).requireAbove()}, nil
}
