package likelihood_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/likelihood"
	"unmask/model"
	"unmask/testkit/refusal"
)

// models have marginals that agree with each other: p(answer | rest) is the same in every
// order.
var models = []string{"product:length=12,tokens=5", "markov:length=12,tokens=4,stay=0.5",
	"hmm:length=12,tokens=5,hidden=3", "ising:height=3,width=4,coupling=0.6,field=0.1"}

// sample returns a model's own sample and log p(tokens[from:to] | the rest), the last positions of
// which are unknown.
func sample(t *testing.T, name string, from, to int) (*exact.Model, []int32, float64) {
	m, err := exact.Parse(name)
	require.NoError(t, err)
	tokens := m.Sample(5, 3)
	tokens[m.Length()-1] = int32(m.Tokens())
	rest := append([]int32{}, tokens...)
	for i := from; i < to; i++ {
		rest[i] = int32(m.Tokens())
	}
	return m, tokens, m.LogProb(tokens) - m.LogProb(rest)
}

func of(t *testing.T, d model.Denoiser, tokens []int32, from, to int,
	o likelihood.Options) *likelihood.Estimate {
	e, err := likelihood.Measure(t.Context(), d, tokens, from, to, o)
	require.NoError(t, err)
	sum := 0.0
	for _, l := range e.LogP {
		sum += l
	}
	require.InDelta(t, e.LogProb, sum, 1e-9)
	return e
}

// On exact models every method gives the true log-probability: the chain rule in any order without
// an error, estimates within theirs.
func TestExactModels(t *testing.T) {
	const from, to = 3, 11
	for _, name := range models {
		m, tokens, truth := sample(t, name, from, to)
		d := exact.NewDenoiser(m)
		for _, method := range []string{likelihood.LeftToRight, "confidence", "margin",
			"entropy(temperature=1)", "halton", "u-moment", "hybrid"} {
			e := of(t, d, tokens, from, to, likelihood.Options{Method: method, Seed: 1})
			require.InDelta(t, truth, e.LogProb, 1e-4, "%s %s", name, method)
			require.Zero(t, e.Error)
			require.Equal(t, to-from, e.Passes)
		}
		e := of(t, d, tokens, from, to, likelihood.Options{Method: likelihood.Random, Passes: 20})
		require.InDelta(t, truth, e.LogProb, 1e-4, name)
		require.Less(t, e.Error, 1e-4)
		// All 255 masks, each with its probability.
		e = of(t, d, tokens, from, to, likelihood.Options{Passes: 255})
		require.InDelta(t, truth, e.LogProb, 1e-4, name)
		require.Zero(t, e.Error)
		require.Equal(t, 255, e.Passes)
		for _, method := range []string{likelihood.MonteCarlo, likelihood.Stratified} {
			e := of(t, d, tokens, from, to, likelihood.Options{Method: method, Passes: 250, Seed: 2})
			require.Greater(t, e.Error, 0.0)
			require.InDelta(t, truth, e.LogProb, 3.5*e.Error, "%s %s", name, method)
		}
	}
}

// Errors are those of the estimates over many seeds, and at equal passes strata have smaller ones.
func TestErrorsAreTrue(t *testing.T) {
	const from, to, passes, seeds = 0, 10, 20, 300
	m, tokens, truth := sample(t, "markov:length=12,tokens=4,stay=0.5", from, to)
	d := exact.NewDenoiser(m)
	spread := map[string]float64{}
	for _, method := range []string{likelihood.MonteCarlo, likelihood.Stratified} {
		var sum, squares, claimed float64
		for seed := range uint64(seeds) {
			e := of(t, d, tokens, from, to, likelihood.Options{Method: method, Passes: passes,
				Seed: seed})
			sum += e.LogProb - truth
			squares += (e.LogProb - truth) * (e.LogProb - truth)
			claimed += e.Error * e.Error
		}
		require.InDelta(t, 0, sum/seeds, 4*math.Sqrt(squares)/seeds, method)
		require.InEpsilon(t, math.Sqrt(squares), math.Sqrt(claimed), 0.15, method)
		spread[method] = math.Sqrt(squares / seeds)
	}
	t.Logf("standard errors of %d passes: %v", passes, spread)
	require.Less(t, spread[likelihood.Stratified], 0.9*spread[likelihood.MonteCarlo])
}

// The result does not depend on the batch size, and does on the seed and the index.
func TestAnyBatch(t *testing.T) {
	m, tokens, _ := sample(t, models[1], 1, 11)
	d := exact.NewDenoiser(m)
	for _, method := range []string{likelihood.MonteCarlo, likelihood.Stratified, likelihood.Random} {
		o := likelihood.Options{Method: method, Passes: 30, Seed: 4}
		want := of(t, d, tokens, 1, 11, o)
		for _, o.Batch = range []int{1, 7, 1000} {
			require.Equal(t, want, of(t, d, tokens, 1, 11, o), method)
		}
		o.Index = 1
		require.NotEqual(t, want.LogP, of(t, d, tokens, 1, 11, o).LogP, method)
	}
}

// blocky is an exact model whose positions see their own block of 4 and those before it.
type blocky struct{ *exact.Denoiser }

func (b blocky) Spec() model.Spec {
	s := b.Denoiser.Spec()
	s.Block, s.Fixed = 4, false
	return s
}

func (b blocky) Forward(ctx context.Context, batch *model.Batch) (model.Marginals, error) {
	whole, length := *batch, b.Denoiser.Spec().Length()
	if batch.Length%4 != 0 && batch.Length != length {
		panic("a sequence does not end with a block")
	}
	whole.Length, whole.Tokens, whole.ReadRows = length, nil, nil
	for i := range batch.Size {
		whole.Tokens = append(whole.Tokens, batch.Tokens[i*batch.Length:(i+1)*batch.Length]...)
		for range length - batch.Length {
			whole.Tokens = append(whole.Tokens, b.Spec().Mask)
		}
	}
	inner, err := b.Denoiser.Forward(ctx, &whole)
	return cut{inner, batch.Length, length}, err
}

// cut are marginals of longer sequences.
type cut struct {
	model.Marginals
	length, whole int
}

func (c cut) rows(rows []int32) (out []int32) {
	for _, r := range rows {
		out = append(out, r/int32(c.length)*int32(c.whole)+r%int32(c.length))
	}
	return out
}

func (c cut) Visit(rows []int32, visit func(int, []float32)) error {
	return c.Marginals.Visit(c.rows(rows), visit)
}

func (c cut) Stats(rows []int32, s *model.Stats) error { return c.Marginals.Stats(c.rows(rows), s) }

// Blocks are measured given the clean tokens before them; what follows a block is not shown.
func TestBlocks(t *testing.T) {
	const from, to = 2, 11
	for _, name := range models[1:3] {
		m, tokens, _ := sample(t, name, from, to)
		before := append([]int32{}, tokens...)
		for i := from; i < len(before); i++ {
			before[i] = int32(m.Tokens())
		}
		truth := m.LogProb(tokens) - m.LogProb(before)
		d := blocky{exact.NewDenoiser(m)}
		for _, method := range []string{likelihood.LeftToRight, "confidence", likelihood.Stratified} {
			e := of(t, d, tokens, from, to, likelihood.Options{Method: method, Passes: 16})
			require.InDelta(t, truth, e.LogProb, 1e-4, "%s %s", name, method)
			require.Zero(t, e.Error) // no block has more than 15 masks
		}
		e := of(t, d, tokens, from, to, likelihood.Options{Method: likelihood.MonteCarlo, Passes: 500})
		require.InDelta(t, truth, e.LogProb, 3.5*e.Error, name)
	}
}

func TestBest(t *testing.T) {
	m, err := exact.Parse("product:length=6,tokens=4,seed=2")
	require.NoError(t, err)
	p := make([]float64, 24)
	m.Conditionals(p, []int32{4, 4, 4, 4, 4, 4})
	var tokens []int32
	for i := range 6 {
		best := 0
		for k := range 4 {
			if p[4*i+k] > p[4*i+best] {
				best = k
			}
		}
		tokens = append(tokens, int32(best))
	}
	e := of(t, exact.NewDenoiser(m), tokens, 0, 6, likelihood.Options{Passes: 8})
	require.True(t, e.IsGreedy(tokens))
	tokens[2] = (tokens[2] + 1) % 4
	e = of(t, exact.NewDenoiser(m), tokens, 0, 6, likelihood.Options{Passes: 8})
	require.False(t, e.IsGreedy(tokens))
}

func TestRefusals(t *testing.T) {
	m, tokens, _ := sample(t, models[0], 1, 5)
	d := exact.NewDenoiser(m)
	for want, o := range map[string]likelihood.Options{
		`method is "best", want monte-carlo, stratified, random, left-to-right or an order of ` +
			`samplers, such as confidence`: {Method: "best"},
		`method is "maskgit", want monte-carlo, stratified, random, left-to-right or an order of ` +
			`samplers, such as confidence`: {Method: "maskgit"},
		"passes is 1":                 {Passes: 1},
		"batch is -1, want 1 or more": {Batch: -1},
	} {
		_, err := likelihood.Measure(t.Context(), d, tokens, 1, 5, o)
		refusal.RequireText(t, err, want)
		refusal.RequireText(t, o.Check(), want)
	}
	_, err := likelihood.Measure(t.Context(), d, tokens, 5, 5, likelihood.Options{})
	require.EqualError(t, err, "the answer is tokens 5 to 4 of 12, want at least one")
	_, err = likelihood.Measure(t.Context(), d, tokens, 5, 12, likelihood.Options{})
	require.EqualError(t, err, "token 6 of the answer is 5, want one of 0 to 4 that is not the mask")
	ctx, cancel := context.WithCancel(t.Context())
	o := likelihood.Options{Method: likelihood.LeftToRight, Batch: 1}
	o.Progress = func(done, total int) {
		require.Equal(t, 4, total)
		if done == 2 {
			cancel()
		}
	}
	_, err = likelihood.Measure(ctx, d, tokens, 1, 5, o)
	require.ErrorIs(t, err, context.Canceled)
}
