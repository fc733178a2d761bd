package theory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"unmask/internal/philox"
)

// Bound returns theorem 1's bound on the total variation distance of MaskGIT and the moment
// sampler, for k of n positions with s outcomes.
func Bound(n, k, s int, alpha float64) float64 {
	x := float64(k*k) * math.Pow(float64(s), 1/alpha) / float64(n)
	return 5 * math.Sqrt(x) * (1 + math.Sqrt(math.Log(max(1, 1/x))))
}

// CheckEnumerated checks theorem 1 where everything can be enumerated: the total variation
// distance is below the bound (which is weak for so few positions) and falls as N grows.
func CheckEnumerated(_ context.Context, o Options) ([]Result, error) {
	const s = 2
	var results []Result
	for _, alpha := range []float64{1, 3} {
		for k := 1; k <= 2; k++ {
			before := 1.0
			for _, n := range []int{3, 6, 9} {
				tv := Variation(Round(Distributions(n, s, 4), k, alpha))
				r := Result{
					Claim:     "theorem 1",
					Case:      fmt.Sprintf("enumerated, N=%d k=%d S=%d alpha=%v", n, k, s, alpha),
					Measure:   "total variation",
					Statistic: tv,
					Bound:     min(before, Bound(n, k, s, alpha)),
				}
				results = append(results, r.requireBelow())
				before = tv
			}
		}
	}
	return results, nil
}

// CheckMonteCarlo checks theorem 1 where the bound is below 1, by estimates of the total variation
// distance.
func CheckMonteCarlo(ctx context.Context, o Options) ([]Result, error) {
	const s = 4
	const alpha = 6.0
	var sizes []int
	for n := 256; n <= o.Most; n *= 4 {
		sizes = append(sizes, n)
	}
	opens := []int{1, 2, 4}
	var results []Result
	variation := map[[2]int]Result{}
	for _, n := range sizes {
		p := Distributions(n, s, 4)
		for _, k := range opens {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			tv, half := EstimateVariation(p, k, alpha, o.Seed)
			r := Result{
				Claim:     "theorem 1",
				Case:      fmt.Sprintf("Monte Carlo, N=%d k=%d S=%d alpha=%v", n, k, s, alpha),
				Measure:   "total variation",
				Statistic: tv,
				Error:     half,
				Bound: Bound(n, k, s,
					alpha),
			}.requireBelow()
			x := float64(n) / float64(k*k)
			r.Points = []Point{{fmt.Sprintf("k = %d", k), x, tv, half}, {"bound", x, r.Bound, 0}}
			variation[[2]int{n, k}] = r
			results = append(results, r)
		}
	}
	for _, k := range opens {
		for i := 1; i < len(sizes); i++ {
			more := variation[[2]int{sizes[i], k}]
			fewer := variation[[2]int{sizes[i-1], k}]
			results = append(results, Result{
				Claim:     "theorem 1",
				Case:      fmt.Sprintf("falls from N=%d to N=%d, k=%d", sizes[i-1], sizes[i], k),
				Measure:   "total variation",
				Statistic: more.Statistic,
				Error:     more.Error,
				Bound:     fewer.Statistic - fewer.Error,
			}.requireBelow())
		}
	}
	return results, nil
}

const (
	varBatches = 8   // independent estimates
	varOuter   = 500 // outputs of the moment sampler in each estimate
	varInner   = 100 // draws of all other tokens in each estimate
)

// EstimateVariation returns the total variation distance of MaskGIT's and the moment sampler's
// output, and half of the 95 % confidence interval.
//
// It is E max(0, 1-L(y)) over outputs y of the moment sampler, where L is MaskGIT's probability
// divided by the moment sampler's: by equations 2 and 4, the mean over the other tokens z of prod_l
// M_l/S_l, where S_l sums p_i(z_i)^(1/alpha) over the remaining positions and M_l = E S_l. With S_l
// = M_l*(1+d_l) this is 1 - sum E d_l, which is known exactly, plus terms of second order; only
// these are averaged over z. Their noise can only make the estimate larger, because max(0, 1-L) is
// convex.
func EstimateVariation(p [][]float64, k int, alpha float64, seed uint64) (tv, half float64) {
	v := newVariation(p, k, alpha)
	estimates := make([]float64, varBatches)
	for b := range estimates {
		estimates[b] = v.estimate(seed, b)
	}
	return meanInterval(estimates)
}

// variation is the work of EstimateVariation.
type variation struct {
	p [][]float64 // [n, outcomes]
	n int         // positions
	k int         // of them that open

	weight [][]float64 // [n, outcomes] p_i(x)^(1/alpha)
	moment []float64   // [n] sum_x p_i(x)^(1+1/alpha)
	upTo   []float64   // [n] sums of moment

	z   []uint8   // [varInner, n] tokens
	sum []float64 // [varInner] of their weights
}

// newVariation returns the variation of marginals p [positions, tokens], with the weights
// p^(1/alpha) of each token and the moments of each position.
func newVariation(p [][]float64, k int, alpha float64) *variation {
	n := len(p)
	v := &variation{
		p:      p,
		n:      n,
		k:      k,
		weight: make([][]float64, n),
		moment: make([]float64, n),
		upTo:   make([]float64, n),
		z:      make([]uint8, varInner*n),
		sum:    make([]float64, varInner),
	}
	total := 0.0
	for i, row := range p {
		v.weight[i] = make([]float64, len(row))
		for x, q := range row {
			v.weight[i][x] = math.Pow(q, 1/alpha)
			v.moment[i] += q * v.weight[i][x]
		}
		total += v.moment[i]
		v.upTo[i] = total
	}
	return v
}

// estimate returns one independent estimate of the total variation distance.
func (v *variation) estimate(seed uint64, batch int) float64 {
	for r := range varInner {
		stream := philox.Stream{Seed: seed, Sequence: uint32(batch), Step: uint32(r)}
		v.sum[r] = 0
		for i, row := range v.p {
			x := drawOutcome(row, stream.Uniform(i, philox.Token))
			v.z[r*v.n+i] = uint8(x)
			v.sum[r] += v.weight[i][x]
		}
	}
	mean := 0.0
	positions := make([]int, v.k)
	weights := make([]float64, v.k)  // of the tokens of the output
	expected := make([]float64, v.k) // their means
	for y := range varOuter {
		stream := philox.Stream{Seed: seed, Sequence: uint32(batch), Step: uint32(y)}
		v.drawPositions(stream, positions)
		for l, i := range positions {
			u := stream.Uniform(l, philox.Reorder) * v.moment[i]
			x := 0
			for ; x < len(v.p[i])-1 && u >= v.p[i][x]*v.weight[i][x]; x++ {
				u -= v.p[i][x] * v.weight[i][x]
			}
			weights[l] = v.weight[i][x]
			expected[l] = v.moment[i]
		}
		mean += max(0, 1-v.ratio(positions, weights, expected)) / varOuter
	}
	return mean
}

// drawPositions chooses positions without replacement, weighted by their moments.
func (v *variation) drawPositions(stream philox.Stream, positions []int) {
	n := 0 // positions so far
	for try := 0; n < len(positions); try++ {
		u := stream.Uniform(try, philox.Order) * v.upTo[v.n-1]
		i := min(sort.SearchFloat64s(v.upTo, u), v.n-1)
		if !slices.Contains(positions[:n], i) {
			positions[n] = i
			n++
		}
	}
}

// ratio returns L of one output: positions, the weights of their tokens, and the means of these.
func (v *variation) ratio(positions []int, weights, expected []float64) float64 {
	// m and surplus are M_l and E S_l - M_l, for each l.
	m := make([]float64, v.k)
	surplus := make([]float64, v.k)
	firstOrder := 0.0
	for l := range positions {
		m[l] = v.upTo[v.n-1]
		for j := range l {
			m[l] -= expected[j]
		}
		for j := l; j < v.k; j++ {
			surplus[l] += weights[j] - expected[j]
		}
		firstOrder += surplus[l] / m[l]
	}
	secondOrder := 0.0
	for r := range varInner {
		others := v.sum[r]
		for _, i := range positions {
			others -= v.weight[i][v.z[r*v.n+i]]
		}
		product := 1.0
		sum := 0.0
		left := others
		for _, w := range weights {
			left += w
		}
		for l := range positions {
			d := (left - m[l]) / m[l]
			product *= m[l] / left
			sum += d
			left -= weights[l]
		}
		secondOrder += (product - 1 + sum) / varInner
	}
	return 1 - firstOrder + secondOrder
}

// drawOutcome draws an outcome, given a uniform number in (0, 1).
func drawOutcome(p []float64, u float64) int {
	x := 0
	for ; x < len(p)-1 && u >= p[x]; x++ {
		u -= p[x]
	}
	return x
}
