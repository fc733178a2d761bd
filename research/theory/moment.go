package theory

import (
	"context"
	"fmt"
	"math"
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
	var out []Result
	for _, alpha := range []float64{1, 3} {
		for k := 1; k <= 2; k++ {
			before := 1.0
			for _, n := range []int{3, 6, 9} {
				tv := Variation(Round(Distributions(n, s, 4), k, alpha))
				r := Result{Claim: "theorem 1",
					Case:    fmt.Sprintf("enumerated, N=%d k=%d S=%d alpha=%v", n, k, s, alpha),
					Measure: "total variation"}
				r.Statistic, r.Bound = tv, min(before, Bound(n, k, s, alpha))
				out = append(out, r.below())
				before = tv
			}
		}
	}
	return out, nil
}

// CheckMonteCarlo checks theorem 1 where the bound is below 1, by estimates of the total variation
// distance.
func CheckMonteCarlo(ctx context.Context, o Options) ([]Result, error) {
	const s, alpha = 4, 6.0
	var out []Result
	var sizes []int
	for n := 256; n <= o.Most; n *= 4 {
		sizes = append(sizes, n)
	}
	opens := []int{1, 2, 4}
	variation := map[[2]int]Result{}
	for _, n := range sizes {
		p := Distributions(n, s, 4)
		for _, k := range opens {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			tv, half := EstimateVariation(p, k, alpha, o.Seed)
			r := Result{Claim: "theorem 1",
				Case:    fmt.Sprintf("Monte Carlo, N=%d k=%d S=%d alpha=%v", n, k, s, alpha),
				Measure: "total variation", Statistic: tv, Error: half, Bound: Bound(n, k, s, alpha)}.below()
			x := float64(n) / float64(k*k)
			r.Points = []Point{{fmt.Sprintf("k = %d", k), x, tv, half}, {"bound", x, r.Bound, 0}}
			variation[[2]int{n, k}] = r
			out = append(out, r)
		}
	}
	for _, k := range opens {
		for i := 1; i < len(sizes); i++ {
			more, fewer := variation[[2]int{sizes[i], k}], variation[[2]int{sizes[i-1], k}]
			out = append(out, Result{Claim: "theorem 1",
				Case:    fmt.Sprintf("falls from N=%d to N=%d, k=%d", sizes[i-1], sizes[i], k),
				Measure: "total variation", Statistic: more.Statistic, Error: more.Error,
				Bound: fewer.Statistic - fewer.Error}.below())
		}
	}
	return out, nil
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
	return interval(estimates)
}

// variation is the work of EstimateVariation.
type variation struct {
	p      [][]float64
	n, k   int
	weight [][]float64 // p_i(x)^(1/alpha)
	moment []float64   // sum_x p_i(x)^(1+1/alpha)
	upTo   []float64   // sums of moment
	z      []uint8     // [varInner, n] tokens
	sum    []float64   // [varInner] of their weights
}

func newVariation(p [][]float64, k int, alpha float64) *variation {
	n := len(p)
	v := &variation{p: p, n: n, k: k, weight: make([][]float64, n), moment: make([]float64, n),
		upTo: make([]float64, n),
		z:    make([]uint8, varInner*n), sum: make([]float64, varInner)}
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

func (v *variation) estimate(seed uint64, batch int) float64 {
	for r := range varInner {
		stream := philox.Stream{Seed: seed, Sequence: uint32(batch), Step: uint32(r)}
		v.sum[r] = 0
		for i, row := range v.p {
			x := pick(row, stream.Uniform(i, philox.Token))
			v.z[r*v.n+i] = uint8(x)
			v.sum[r] += v.weight[i][x]
		}
	}
	mean := 0.0
	positions, own, expected := make([]int, v.k), make([]float64, v.k), make([]float64, v.k)
	for y := range varOuter {
		stream := philox.Stream{Seed: seed, Sequence: uint32(batch), Step: uint32(y)}
		v.draw(stream, positions)
		for l, i := range positions {
			u := stream.Uniform(l, philox.Reorder) * v.moment[i]
			x := 0
			for ; x < len(v.p[i])-1 && u >= v.p[i][x]*v.weight[i][x]; x++ {
				u -= v.p[i][x] * v.weight[i][x]
			}
			own[l], expected[l] = v.weight[i][x], v.moment[i]
		}
		mean += max(0, 1-v.ratio(positions, own, expected)) / varOuter
	}
	return mean
}

// draw chooses positions without replacement, weighted by their moments.
func (v *variation) draw(stream philox.Stream, positions []int) {
	for l, tries := 0, 0; l < len(positions); tries++ {
		u := stream.Uniform(tries, philox.Order) * v.upTo[v.n-1]
		i := min(sort.SearchFloat64s(v.upTo, u), v.n-1)
		again := false
		for _, taken := range positions[:l] {
			again = again || taken == i
		}
		if !again {
			positions[l] = i
			l++
		}
	}
}

// ratio returns L of one output.
func (v *variation) ratio(positions []int, own, expected []float64) float64 {
	// m and surplus are M_l and E S_l - M_l, for each l.
	m, surplus := make([]float64, v.k), make([]float64, v.k)
	first := 0.0
	for l := range positions {
		m[l] = v.upTo[v.n-1]
		for j := range l {
			m[l] -= expected[j]
		}
		for j := l; j < v.k; j++ {
			surplus[l] += own[j] - expected[j]
		}
		first += surplus[l] / m[l]
	}
	second := 0.0
	for r := range varInner {
		others := v.sum[r]
		for _, i := range positions {
			others -= v.weight[i][v.z[r*v.n+i]]
		}
		product, sum, left := 1.0, 0.0, others
		for _, w := range own {
			left += w
		}
		for l := range positions {
			d := (left - m[l]) / m[l]
			product *= m[l] / left
			sum += d
			left -= own[l]
		}
		second += (product - 1 + sum) / varInner
	}
	return 1 - first + second
}

// pick draws an outcome.
func pick(p []float64, u float64) int {
	x := 0
	for ; x < len(p)-1 && u >= p[x]; x++ {
		u -= p[x]
	}
	return x
}
