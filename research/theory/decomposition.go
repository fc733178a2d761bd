package theory

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/combin"

	"unmask/exact"
	"unmask/samplers"
)

// Terms are both sides of equation 5 for a first round that opens the set I, in nats.
type Terms struct {
	// KL is D(q || p), with p the distribution of the two rounds.
	KL float64

	// First and Second are its two parts: within I, and within the rest given I.
	First, Second float64

	// Exploitation is (a): the entropies of I.
	Exploitation float64

	// Dispersion is (b): the entropies of I given others of I.
	Dispersion float64

	// Exploration is (c): the entropies of the rest.
	Exploration float64
}

// Bound returns the right side.
func (t Terms) Bound() float64 { return t.Exploitation - t.Dispersion + t.Exploration }

// rounding is the tolerance for sums over all sequences, in nats.
const rounding = 1e-9

// CheckDecomposition checks equation 5 on small models: the loss of two rounds is the sum of the
// losses of each, and at most the bound, for a first round that exploits (lowest entropies),
// explores (Halton's order) or does half of each.
func CheckDecomposition(context.Context, Options) ([]Result, error) {
	models := []struct {
		name string
		m    *exact.Model
	}{
		{"markov", exact.Markov(6, 3, 0.5, 3, 2)},
		{"hmm", exact.HMM(6, 3, 3, 0.7, 2, 1)},
		{"ising", exact.Ising(2, 4, 0.6, 0.2)},
	}
	orders := []struct {
		name  string
		order samplers.Order
	}{
		{"exploitation", samplers.Entropy{}},
		{"exploration", samplers.Halton{}},
		{"hybrid", samplers.Hybrid{Exploit: samplers.Entropy{}}},
	}
	var results []Result
	for i, tested := range models {
		m := tested.m
		for _, c := range orders {
			chosen := firstRound(m, c.order, m.Length()/2)
			t := Decompose(m, chosen)
			name := fmt.Sprintf("%s of %s", c.name, tested.name)
			parts := Result{
				Claim:     "equation 5",
				Case:      name,
				Measure:   "nats by which the two parts miss D(q||p)",
				Statistic: math.Abs(t.KL - t.First - t.Second),
				Bound:     rounding,
			}
			whole := Result{
				Claim: "equation 5",
				Case: fmt.Sprintf("%s: a=%.3f b=%.3f c=%.3f", name, t.Exploitation, t.Dispersion,
					t.Exploration),
				Measure:   "D(q||p), nats, against a-b+c",
				Statistic: t.KL,
				Bound:     t.Bound() + rounding,
			}
			if i == 0 {
				whole.Points = sizePoints(c.name, m, c.order)
			}
			results = append(results, parts.requireBelow(), whole.requireBelow())
		}
	}
	return results, nil
}

// sizePoints returns both sides against the number of positions that the first round opens.
func sizePoints(name string, m *exact.Model, order samplers.Order) (points []Point) {
	for k := range m.Length() + 1 {
		t := Decompose(m, firstRound(m, order, k))
		points = append(points, Point{Curve: name, X: float64(k), Y: t.KL},
			Point{Curve: name + ", a-b+c", X: float64(k), Y: t.Bound()})
	}
	return points
}

// firstRound returns the positions that an order opens first, ascending.
func firstRound(m *exact.Model, order samplers.Order, k int) []int {
	n := m.Length()
	x := make([]int32, n)
	p := make([]float64, n*m.Tokens())
	v := &samplers.View{
		Mask:      int32(m.Tokens()),
		Outcomes:  m.Tokens(),
		Shape:     m.Shape(),
		Step:      1,
		Steps:     2,
		Quota:     k,
		FreeCount: n,
		Tokens:    x,
	}
	for i := range x {
		x[i] = v.Mask
		v.Masked = append(v.Masked, i)
	}
	m.Conditionals(p, x)
	for i := range x {
		v.Entropy = append(v.Entropy, stat.Entropy(p[i*m.Tokens():(i+1)*m.Tokens()]))
	}
	chosen := slices.Clone(order.Rank(v, k))
	slices.Sort(chosen)
	return chosen
}

// Decompose computes equation 5 by sums over all sequences, for any first round.
func Decompose(m *exact.Model, chosen []int) Terms {
	n := m.Length()
	s := m.Tokens()
	mask := int32(s)
	empty := slices.Repeat([]int32{mask}, n)
	marginals := make([]float64, n*s)
	m.Conditionals(marginals, empty)
	conditionals := make([]float64, n*s) // given the first round's tokens
	var t Terms
	knownTokens := slices.Clone(empty)
	for _, x := range allSequences(m) {
		logQ := m.LogProb(x)
		q := math.Exp(logQ)
		if q == 0 {
			continue
		}
		copy(knownTokens, empty)
		for _, p := range chosen {
			knownTokens[p] = x[p]
		}
		logFirst := m.Conditionals(conditionals, knownTokens) // log q(x_I)
		first := 0.0                                          // log of p's first round
		second := 0.0                                         // and of its second
		for p, token := range x {
			if knownTokens[p] == mask {
				row := conditionals[p*s : (p+1)*s]
				second += math.Log(row[token])
				t.Exploration += q * stat.Entropy(row)
			} else {
				first += math.Log(marginals[p*s+int(token)])
			}
		}
		t.KL += q * (logQ - first - second)
		t.First += q * (logFirst - first)
		t.Second += q * (logQ - logFirst - second)
	}
	for _, i := range chosen {
		t.Exploitation += stat.Entropy(marginals[i*s : (i+1)*s])
		t.Dispersion += dispersion(m, i, chosen)
	}
	return t
}

// dispersion returns the mean of H(q_i|J) over subsets J of the rest of I: a uniform size, then a
// uniform subset of that size, then tokens from the truth.
func dispersion(m *exact.Model, i int, chosen []int) (nats float64) {
	var others []int
	for _, p := range chosen {
		if p != i {
			others = append(others, p)
		}
	}
	n := m.Length()
	s := m.Tokens()
	p := make([]float64, n*s)
	for subset := range 1 << len(others) {
		var given []int
		for j, position := range others {
			if subset>>j&1 == 1 {
				given = append(given, position)
			}
		}

		// Each size has the same probability, and each subset of that size.
		weight := 1 / (float64(len(others)+1) * float64(combin.Binomial(len(others), len(given))))
		x := slices.Repeat([]int32{int32(s)}, n)
		values := 1
		for range given {
			values *= s
		}
		for value := range values { // all ways to fill the given positions
			digits := value
			for _, position := range given {
				x[position] = int32(digits % s)
				digits /= s
			}
			if logP := m.Conditionals(p, x); !math.IsInf(logP, -1) {
				nats += weight * math.Exp(logP) * stat.Entropy(p[i*s:(i+1)*s])
			}
		}
	}
	return nats
}
