package theory

import (
	"context"
	"slices"

	"unmask/exact"
	"unmask/generate"
	"unmask/samplers"
)

// Unbiased are choose-then-sample rules at gamma = 1.
var Unbiased = []string{"random", "halton", "u-moment", "hybrid",
	"hybrid(random,u-moment(alpha=0.5))",
	"confidence", "confidence(temperature=0.3)", "margin", "entropy", "entropy(temperature=1)",
	"semi-ar(block=2,u-moment)"}

// unbiased returns Unbiased and all orders that other packages registered.
func unbiased() []string {
	names := slices.Clone(Unbiased)
	for _, info := range samplers.List() {
		if info.Order && info.Foreign {
			names = append(names, info.Name)
		}
	}
	return names
}

// OnePerStep are samplers that decide the number of positions themselves and here open one per
// step.
var OnePerStep = []string{"first-hitting", "threshold(theta=1)", "eb(budget=1e-9)",
	"eb(budget=1e-9,margin)", "semi-ar(block=2,threshold(theta=1))"}

// departure is the least distance of MaskGIT's distribution from the truth in OneByOne's model.
const departure = 0.05

// CheckOneByOne checks proposition 2: choosing first and drawing one position per step at gamma = 1
// samples the joint distribution, in any order. MaskGIT does not: its distribution over all
// sequences is enumerated, and the statistic is its distance from the truth.
func CheckOneByOne(ctx context.Context, o Options) ([]Result, error) {
	m := exact.Markov(4, 3, 0.5, 2, 1)
	truth := Joint(m)
	check := func(name string, steps int, want []float64, measure string) (Result, error) {
		s, err := samplers.Parse(name)
		if err != nil {
			return Result{}, err
		}
		count, err := Count(ctx, m,
			generate.Options{Request: generate.Request{Recipe: generate.Recipe{Sampler: s,
				Steps: steps}, Seed: o.Seed}}, o.Draws)
		if err != nil {
			return Result{}, err
		}
		return counted("proposition 2", name+", one position a step", measure, count,
			Scale(want, float64(o.Draws))), nil
	}
	const joint = "chi-square against the joint"
	var out []Result
	for i, names := range [][]string{unbiased(), OnePerStep} {
		for _, name := range names {
			r, err := check(name, []int{m.Length(), 0}[i], truth, joint)
			if err != nil {
				return nil, err
			}
			out = append(out, r.below())
		}
	}
	for i, name := range []string{"maskgit(alpha=1)", "moment(alpha=1)"} {
		maskgit, moment := EnumerateRounds(m, 1)
		exact := [][]float64{maskgit, moment}[i]
		r := Result{Claim: "proposition 2", Case: name + ", enumerated",
			Measure: "total variation from the joint", Statistic: Variation(exact, truth), Bound: departure}
		out = append(out, r.above())
		r, err := check(name, m.Length(), exact, "chi-square against its enumeration")
		if err != nil {
			return nil, err
		}
		out = append(out, r.below())
		if r, err = check(name, m.Length(), truth, joint); err != nil {
			return nil, err
		}
		out = append(out, r.above())
	}
	// Opening all at once gives the product of the marginals, which is not the joint either.
	r, err := check("random", 1, truth, joint)
	r.Case = "random, all in one step"
	return append(out, r.above()), err
}

// EnumerateRounds returns, by enumeration, the distributions over all sequences of a small model
// that MaskGIT and the moment sampler generate with one position per step.
func EnumerateRounds(m *exact.Model, alpha float64) (maskgit, moment []float64) {
	out := [2][]float64{make([]float64, sequences(m)), make([]float64, sequences(m))}
	length, tokens := m.Length(), m.Tokens()
	p := make([]float64, length*tokens)
	for which := range out {
		x := slices.Repeat([]int32{int32(tokens)}, length)
		var open func(step int, q float64)
		open = func(step int, q float64) {
			if step > length {
				out[which][index(x, tokens)] += q
				return
			}
			m.Conditionals(p, x)
			var masked []int
			var rows [][]float64
			for i, t := range x {
				if int(t) == tokens {
					masked = append(masked, i)
					rows = append(rows, append([]float64{}, p[i*tokens:(i+1)*tokens]...))
				}
			}
			each := rows[0] // the last step has no temperature and no choice
			if step < length {
				a, b := Round(rows, 1, samplers.AlphaAt(alpha, step, length))
				each = [][]float64{a, b}[which]
			}
			for j, r := range each {
				if r > 0 {
					i := masked[j/tokens]
					x[i] = int32(j % tokens)
					open(step+1, q*r)
					x[i] = int32(tokens)
				}
			}
		}
		open(1, 1)
	}
	return out[0], out[1]
}
