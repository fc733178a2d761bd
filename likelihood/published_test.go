package likelihood_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/exact"
	"unmask/likelihood"
	"unmask/model"
)

// sharp is a model whose marginals are those of an exact model at temperature 1/2. They contradict
// each other, as a network's do.
type sharp struct{ *exact.Denoiser }

func (s sharp) Forward(ctx context.Context, b *model.Batch) (model.Marginals, error) {
	inner, err := s.Denoiser.Forward(ctx, b)
	return &model.Filtered{Base: inner, Filter: &model.Filter{Temperature: 0.5},
		Outcomes: s.Spec().Outcomes}, err
}

// orders calls visit with log p of x in each order of opening it.
func orders(t *testing.T, d model.Denoiser, x []int32, visit func(logP float64)) {
	spec := d.Spec()
	known := map[int][]float64{} // by the set of open positions: log p of x's tokens
	given := func(set int) []float64 {
		if known[set] != nil {
			return known[set]
		}
		out, tokens, rows := make([]float64, len(x)), append([]int32{}, x...), []int32{}
		for i := range x {
			if set>>i&1 == 0 {
				tokens[i], rows = spec.Mask, append(rows, int32(i))
			}
		}
		m, err := d.Forward(t.Context(), &model.Batch{Size: 1, Length: len(x), Tokens: tokens})
		require.NoError(t, err)
		require.NoError(t, m.Visit(rows, func(i int, logits []float32) {
			out[rows[i]] = logP(logits[:spec.Outcomes], x[rows[i]], spec.Mask)
		}))
		known[set] = out
		return out
	}
	var open func(set int, sum float64)
	open = func(set int, sum float64) {
		if set == 1<<len(x)-1 {
			visit(sum)
			return
		}
		for i, l := range given(set) {
			if set>>i&1 == 0 {
				open(set|1<<i, sum+l)
			}
		}
	}
	open(0, 0)
}

// Where marginals contradict each other the estimate is a lower bound: it is the mean of log p over
// orders, and log of the mean of p, the probability of opening the tokens one by one at random, is
// larger. For a product and other exact models both are the same.
func TestLowerBound(t *testing.T) {
	const length, tokens = 4, 3
	m := exact.Markov(length, tokens, 0.5, 2, 1)
	total, gaps, bounds, texts := 0.0, 0.0, 0.0, 0
	x := make([]int32, length)
	for index := range 81 {
		for i, n := length-1, index; i >= 0; i, n = i-1, n/tokens {
			x[i] = int32(n % tokens)
		}
		var sum, mean, n float64
		orders(t, sharp{exact.NewDenoiser(m)}, x, func(logP float64) {
			sum, mean, n = sum+math.Exp(logP), mean+logP, n+1
		})
		total += sum / n
		e := of(t, sharp{exact.NewDenoiser(m)}, x, 0, length, likelihood.Options{Passes: 16})
		require.Zero(t, e.Error)
		require.InDelta(t, mean/n, e.LogProb, 1e-4)
		gap := math.Log(sum/n) - e.LogProb
		require.GreaterOrEqual(t, gap, -1e-5)
		gaps, bounds, texts = gaps+sum/n*gap, bounds+sum/n*e.LogProb, texts+1

		sum, n = 0, 0
		orders(t, exact.NewDenoiser(m), x, func(logP float64) { sum, n = sum+math.Exp(logP), n+1 })
		e = of(t, exact.NewDenoiser(m), x, 0, length, likelihood.Options{Passes: 16})
		require.InDelta(t, math.Log(sum/n), e.LogProb, 1e-4)
		require.InDelta(t, m.LogProb(x), e.LogProb, 1e-4)
	}
	require.InDelta(t, 1, total, 1e-5) // it is a distribution over texts
	require.Greater(t, gaps, 0.001)
	t.Logf("mean log p of %d texts: %.4f, a bound that is %.4f too low", texts, bounds, gaps)
}

// terms returns for each number k of masked positions the mean of L/k * (sum of log p at the
// masked) over all masks of k of the positions that may be masked, where L is the length.
func terms(d *exact.Model, x []int32, maskable int) (mean []float64) {
	length, n := len(x), make([]float64, maskable+1)
	mean = make([]float64, maskable+1)
	p := make([]float64, length*d.Tokens())
	for set := 1; set < 1<<maskable; set++ {
		tokens, k := append([]int32{}, x...), 0
		for i := range maskable {
			if set>>i&1 == 1 {
				tokens[i], k = int32(d.Tokens()), k+1
			}
		}
		d.Conditionals(p, tokens)
		sum := 0.0
		for i := range maskable {
			if set>>i&1 == 1 {
				sum += math.Log(p[i*d.Tokens()+int(x[i])])
			}
		}
		mean[k], n[k] = mean[k]+float64(length)/float64(k)*sum, n[k]+1
	}
	for k := 1; k <= maskable; k++ {
		mean[k] /= n[k]
	}
	return mean
}

// spread returns how often LLaDA's program masks each number of tokens. For a batch of b it draws
// one k and takes the numbers round(k + i * L/b), i < b, modulo L. Halves are rounded to the even
// number, so that where L/b has halves even numbers come more often (ML-GSAI/LLaDA, eval_llada.py,
// _forward_process).
func spread(length, batch int) []float64 {
	share := make([]float64, length+1)
	for k := 1; k <= length; k++ {
		for i := range batch {
			n := int(math.RoundToEven(float64(k) + float64(i)*float64(length)/float64(batch)))
			share[(n-1)%length+1] += 1 / float64(length*batch)
		}
	}
	return share
}

// Published programs against the truth, with their expectations computed exactly on a chain.
func TestPublishedEstimates(t *testing.T) {
	const length = 8
	m := exact.Markov(length, 4, 0.5, 2, 1)
	x := m.Sample(5, 3)
	truth := m.LogProb(x)
	uniform, each := 0.0, terms(m, x, length)
	for k := 1; k <= length; k++ {
		uniform += each[k] / length
	}
	require.InDelta(t, truth, uniform, 1e-9) // k uniform from 1 to L, as the paper has it

	biased := func(batch int) (sum float64) {
		for k, share := range spread(length, batch) {
			sum += share * each[k]
		}
		return sum - truth
	}
	require.InDelta(t, 0, biased(4), 1e-9)
	t.Logf("log p is %.4f. LLaDA's program, bias: batch 8 %.4f, 16 %.4f, 32 %.4f", truth, biased(8),
		biased(16), biased(32))
	require.Greater(t, math.Abs(biased(16)), 0.02)

	// Each position by its own coin of t, and 1/t as weight: the plain bound of MDLM and LLaDA's
	// training. t from 0 to 1 has no bias, but varies more: also the number of masks is drawn, and
	// it is 0 in one draw of L+1.
	coins := 0.0
	for k := 1; k <= length; k++ {
		coins += each[k] * float64(k) / length * beta(k, length-k) * choose(length, k)
	}
	require.InDelta(t, truth, coins, 1e-9)

	// Dream's program tosses coins too, but never masks the last token: it assumes an end token. The
	// answer's last token is then given, and its own probability is left out.
	dream, some := 0.0, terms(m, x, length-1)
	for k := 1; k < length; k++ {
		dream += some[k] * float64(k) / length * beta(k, length-1-k) * choose(length-1, k)
	}
	p := make([]float64, length*4)
	rest := make([]int32, length)
	for i := range rest {
		rest[i] = 4
	}
	m.Conditionals(p, rest)
	require.InDelta(t, truth-math.Log(p[(length-1)*4+int(x[length-1])]), dream, 1e-9)
	t.Logf("Dream's program: %.4f", dream)
	require.Greater(t, dream-truth, 0.3)
}

// beta returns the integral of t^(k-1) * (1-t)^n over t from 0 to 1.
func beta(k, n int) float64 {
	a, _ := math.Lgamma(float64(k))
	b, _ := math.Lgamma(float64(n + 1))
	c, _ := math.Lgamma(float64(k + n + 1))
	return math.Exp(a + b - c)
}

func choose(n, k int) float64 { return 1 / (float64(k) * beta(k, n-k)) }

// Coins of t vary more than LLaDA's k positions: E of (sum/t)^2 has an integral of 1/t where one
// position is masked, which is infinite from t = 0. Here t is from 1/1000, as in training.
func TestCoinsVaryMore(t *testing.T) {
	const length, least, pieces = 8, 1e-3, 20000
	m := exact.Markov(length, 4, 0.5, 2, 1)
	x := m.Sample(5, 3)
	truth, p := m.LogProb(x), make([]float64, length*4)
	var coins, uniform float64 // second moments of one draw
	for set := 1; set < 1<<length; set++ {
		tokens, k, sum := append([]int32{}, x...), 0, 0.0
		for i := range x {
			if set>>i&1 == 1 {
				tokens[i], k = 4, k+1
			}
		}
		m.Conditionals(p, tokens)
		for i := range x {
			if set>>i&1 == 1 {
				sum += math.Log(p[i*4+int(x[i])])
			}
		}
		uniform += math.Pow(sum*length/float64(k), 2) / length / choose(length, k)
		for i := range pieces {
			u := least + (1-least)*(float64(i)+0.5)/pieces
			coins += sum * sum * math.Pow(u, float64(k-2)) * math.Pow(1-u, float64(length-k)) / pieces
		}
	}
	coins, uniform = coins-truth*truth, uniform-truth*truth
	t.Logf("variance of one draw: coins %.1f, k positions %.1f", coins, uniform)
	require.Greater(t, coins, 3*uniform)
}
