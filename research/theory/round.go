package theory

import (
	"context"
	"fmt"
	"math"

	"unmask/generate"
	"unmask/model"
	"unmask/samplers"
)

// Round returns the exact distributions of one round's positions and tokens, of MaskGIT and of the
// moment sampler, over [N*S]^k, by enumeration (equations 2 and 4). p are N distributions over S
// outcomes; it takes S^N*N^k steps.
func Round(p [][]float64, k int, alpha float64) (maskgit, moment []float64) {
	n := len(p)
	s := len(p[0])
	e := enumeration{k: k, n: n, s: s, taken: make([]bool, n), total: make([]float64, n)}
	size := int(math.Pow(float64(n*s), float64(k)))

	// The moment sampler takes any token, with weight p^beta.
	moment = make([]float64, size)
	outcomes := model.Indexes(0, s)
	for i := range n {
		for x := range s {
			e.total[i] += math.Pow(p[i][x], 1+1/alpha)
		}
	}
	e.weight = func(i, x int) float64 { return math.Pow(p[i][x], 1+1/alpha) }
	e.tokens = func(int) []int { return outcomes }
	e.choose(moment, 0, 0, 1)

	// MaskGIT draws a token at every position first, all of them z, and takes these.
	maskgit = make([]float64, size)
	z := make([]int, n)
	e.weight = func(i, _ int) float64 { return e.total[i] }
	e.tokens = func(i int) []int { return z[i : i+1] }
	for {
		q := 1.0
		for i, x := range z {
			q *= p[i][x]
			e.total[i] = math.Pow(p[i][x], 1/alpha)
		}
		e.choose(maskgit, 0, 0, q)
		if !increment(z, s) {
			return maskgit, moment
		}
	}
}

// increment counts up a number with digits below base, the lowest digit first. It returns false
// where all digits become 0 again.
func increment(digits []int, base int) bool {
	for i := range digits {
		digits[i]++
		if digits[i] < base {
			return true
		}
		digits[i] = 0
	}
	return false
}

// enumeration visits all ordered choices of k of n positions and of their tokens, of s.
type enumeration struct {
	k, n, s int

	// weight is that of a position with a token, tokens are those that a position may take, and
	// total is the sum of weights at each position.
	weight func(i, x int) float64
	tokens func(i int) []int
	total  []float64

	// taken[i] is set if position i is chosen already.
	taken []bool
}

// choose adds to out the probabilities of all choices that begin with those made so far. These have
// the probability q, and index is theirs in out.
func (e *enumeration) choose(out []float64, index, depth int, q float64) {
	if depth == e.k {
		out[index] += q
		return
	}
	left := 0.0
	for i, taken := range e.taken {
		if !taken {
			left += e.total[i]
		}
	}
	for i := range e.n {
		if e.taken[i] {
			continue
		}
		e.taken[i] = true
		for _, x := range e.tokens(i) {
			e.choose(out, index*e.n*e.s+i*e.s+x, depth+1, q*e.weight(i, x)/left)
		}
		e.taken[i] = false
	}
}

// CheckOneRound checks that the samplers themselves follow the distributions of Round.
func CheckOneRound(ctx context.Context, o Options) ([]Result, error) {
	const (
		n     = 4
		s     = 3
		k     = 2
		alpha = 2.0
	)
	p := Distributions(n, s, 4)
	maskgit, moment := Round(p, k, alpha)
	d := newConstantMarginals(p)
	draws := 5 * o.Draws
	var results []Result
	for _, c := range []struct {
		name string
		want []float64
	}{{"maskgit", maskgit}, {"moment", moment}} {
		// The first of two steps has alpha_1 = alpha/2.
		sampler, err := samplers.Parse(fmt.Sprintf("%s(alpha=%v)", c.name, 2*alpha))
		if err != nil {
			return nil, err
		}
		count := make([]float64, len(c.want))
		request := generate.Request{Recipe: generate.Recipe{Sampler: sampler, Steps: 2}, Seed: o.Seed}
		run := generate.Options{Request: request, N: draws, Batch: 1000}
		for step, err := range generate.Run(ctx, d, run) {
			if err != nil {
				return nil, err
			}
			if step.N != 1 {
				continue
			}
			for i := range step.Sequences {
				index := 0
				for _, opened := range step.Sequences[i].Opened {
					index = index*n*s + opened.Position*s + int(opened.Token)
				}
				count[index]++
			}
		}
		results = append(results, compareCounts("theorem 1", c.name+", one round, N=4 k=2 S=3",
			"chi-square against its exact distribution", count,
			Scale(c.want, float64(draws))).requireBelow())
	}
	return results, nil
}

// constantMarginals is a model whose marginals do not depend on the known positions.
type constantMarginals struct {
	spec  model.Spec
	row   []float32 // [length, tokens]
	dense model.Dense
}

// newConstantMarginals returns marginals p [positions, tokens] that stay the same whatever is open.
func newConstantMarginals(p [][]float64) *constantMarginals {
	c := &constantMarginals{spec: model.Spec{
		Shape:    []int{len(p)},
		Outcomes: len(p[0]),
		Mask:     int32(len(p[0])),
	}}
	for _, row := range p {
		for _, v := range row {
			c.row = append(c.row, float32(math.Log(v)))
		}
	}
	return c
}

// Spec implements model.Denoiser.
func (c *constantMarginals) Spec() model.Spec { return c.spec }

// Forward returns the same marginals for each sequence.
func (c *constantMarginals) Forward(_ context.Context, b *model.Batch) (model.Marginals, error) {
	c.dense.Columns = c.spec.Outcomes
	c.dense.Logits = c.dense.Logits[:0]
	for range b.Size {
		c.dense.Logits = append(c.dense.Logits, c.row...)
	}
	return &c.dense, nil
}
