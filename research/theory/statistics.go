package theory

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"unmask/internal/philox"
)

// ChiSquare returns the statistic of counts against expected ones, and the bound that counts of
// that distribution exceed once in 100,000 times. Cells expecting fewer than 5 are merged.
func ChiSquare(count, expected []float64) (chi, bound float64) {
	cells := -1.0 // degrees of freedom: one less than the cells
	restCount := 0.0
	restExpected := 0.0
	for i, e := range expected {
		if e < 5 {
			restCount += count[i]
			restExpected += e
			continue
		}
		chi += (count[i] - e) * (count[i] - e) / e
		cells++
	}
	if restExpected >= 5 || restCount > 0 && restExpected > 0 {
		chi += (restCount - restExpected) * (restCount - restExpected) / restExpected
		cells++
	} else if restCount > 0 { // an impossible outcome occurred
		return math.Inf(1), distuv.ChiSquared{K: max(cells, 1)}.Quantile(chiConfidence)
	}
	return chi, distuv.ChiSquared{K: max(cells, 1)}.Quantile(chiConfidence)
}

// chiConfidence is the share of samples of the right distribution that stay below the bound.
const chiConfidence = 1 - 1e-5

// compareCounts is a check of counts against expected ones by chi-square.
func compareCounts(claim, name, measure string, count, expected []float64) Result {
	chi, bound := ChiSquare(count, expected)
	return Result{Claim: claim, Case: name, Measure: measure, Statistic: chi, Bound: bound}
}

// Scale returns p times n.
func Scale(p []float64, n float64) []float64 {
	scaled := make([]float64, len(p))
	for i, v := range p {
		scaled[i] = v * n
	}
	return scaled
}

// Variation returns the total variation distance of two distributions.
func Variation(p, q []float64) (tv float64) {
	for i := range p {
		tv += math.Abs(p[i]-q[i]) / 2
	}
	return tv
}

// meanInterval returns the mean of independent estimates and half of its 95 % confidence interval.
func meanInterval(x []float64) (mean, half float64) {
	if len(x) < 2 {
		return stat.Mean(x, nil), 0
	}
	n := float64(len(x))
	mean, deviation := stat.MeanStdDev(x, nil)
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return mean, t * stat.StdErr(deviation, n)
}

// Distributions returns n distributions over s outcomes, uniform on the simplex.
func Distributions(n, s int, seed uint64) [][]float64 {
	p := make([][]float64, n)
	r := philox.Stream{Seed: seed}
	for i := range p {
		p[i] = make([]float64, s)
		sum := 0.0
		for x := range p[i] {
			// Exponential variables, divided by their sum, are uniform on the simplex.
			p[i][x] = -math.Log(r.Uniform(i*s+x, philox.Setup))
			sum += p[i][x]
		}
		for x := range p[i] {
			p[i][x] /= sum
		}
	}
	return p
}
