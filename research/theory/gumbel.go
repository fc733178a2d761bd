package theory

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"unmask/samplers"
)

// CheckGumbelTopK checks proposition 1: the top k of mu_i plus Gumbel noise, in order, are draws
// without replacement with weights exp(mu_i).
func CheckGumbelTopK(_ context.Context, o Options) ([]Result, error) {
	const n, k = 5, 3
	mu := [n]float64{0, 1, -1, 0.5, 2}
	v := &samplers.View{Masked: []int{0, 1, 2, 3, 4}}
	draws := 5 * o.Draws
	count := make([]float64, n*n*n) // by the three positions as digits
	want := make([]float64, n*n*n)
	for i := range draws {
		v.Reset()
		v.Rand = samplers.Rand{Seed: o.Seed, Sequence: uint32(i)}
		top := v.Top(k, func(i int) float64 { return mu[i] + v.Gumbel(i) })
		count[(top[0]*n+top[1])*n+top[2]]++
	}
	for i := range want {
		p := 1.0
		left := 0.0 // the weight of what is not taken
		for _, m := range mu {
			left += math.Exp(m)
		}
		isTaken := [n]bool{}
		for _, j := range []int{i / n / n, i / n % n, i % n} {
			if isTaken[j] {
				p = 0
			}
			isTaken[j] = true
			p *= math.Exp(mu[j]) / left
			left -= math.Exp(mu[j])
		}
		want[i] = p * float64(draws)
	}
	r := compareCounts("proposition 1", "Gumbel-top-3 of 5, ordered", "chi-square against the formula",
		count, want)
	r.Points = append(frequencyPoints("measured", want, count, want),
		frequencyPoints("formula", want, want, nil)...)
	return []Result{r.requireBelow()}, nil
}

// frequencyPoints returns the shares of counts x and y with the same index as points; with expected
// counts each has the 95 % interval of its count.
func frequencyPoints(curve string, x, y, expected []float64) (points []Point) {
	sumX := floats.Sum(x)
	sumY := floats.Sum(y)
	for i := range x {
		if x[i] == 0 {
			continue
		}
		p := Point{Curve: curve, X: x[i] / sumX, Y: y[i] / sumY}
		if expected != nil {
			// A count of a share q of n draws has the variance n*q*(1-q).
			q := expected[i] / floats.Sum(expected)
			p.Error = 1.96 * math.Sqrt(q*(1-q)/sumY)
		}
		points = append(points, p)
	}
	return points
}
