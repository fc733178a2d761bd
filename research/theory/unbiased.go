package theory

import (
	"context"
	"slices"

	"unmask/exact"
	"unmask/generate"
	"unmask/samplers"
)

// Unbiased are choose-then-sample rules at gamma = 1.
var Unbiased = []string{
	"random", "halton", "u-moment", "hybrid", "hybrid(random,u-moment(alpha=0.5))",
	"confidence", "confidence(temperature=0.3)", "margin", "entropy", "entropy(temperature=1)",
	"semi-ar(block=2,u-moment)",
}

// unbiasedNames returns Unbiased and all orders that other packages registered.
func unbiasedNames() []string {
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

// departure is the least distance of MaskGIT's distribution from the truth in CheckOneByOne's
// model.
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
		request := generate.Request{Recipe: generate.Recipe{Sampler: s, Steps: steps}, Seed: o.Seed}
		count, err := Count(ctx, m, generate.Options{Request: request}, o.Draws)
		if err != nil {
			return Result{}, err
		}
		return compareCounts("proposition 2", name+", one position a step", measure, count,
			Scale(want, float64(o.Draws))), nil
	}
	const joint = "chi-square against the joint"
	var results []Result
	addBelow := func(names []string, steps int) error {
		for _, name := range names {
			r, err := check(name, steps, truth, joint)
			if err != nil {
				return err
			}
			results = append(results, r.requireBelow())
		}
		return nil
	}
	if err := addBelow(unbiasedNames(), m.Length()); err != nil {
		return nil, err
	}
	if err := addBelow(OnePerStep, 0); err != nil {
		return nil, err
	}

	maskgit, moment := EnumerateRounds(m, 1)
	for _, c := range []struct {
		name       string
		enumerated []float64
	}{{"maskgit(alpha=1)", maskgit}, {"moment(alpha=1)", moment}} {
		distance := Result{
			Claim:     "proposition 2",
			Case:      c.name + ", enumerated",
			Measure:   "total variation from the joint",
			Statistic: Variation(c.enumerated, truth),
			Bound:     departure,
		}
		results = append(results, distance.requireAbove())

		r, err := check(c.name, m.Length(), c.enumerated, "chi-square against its enumeration")
		if err != nil {
			return nil, err
		}
		results = append(results, r.requireBelow())

		r, err = check(c.name, m.Length(), truth, joint)
		if err != nil {
			return nil, err
		}
		results = append(results, r.requireAbove())
	}

	// Opening all at once gives the product of the marginals, which is not the joint either.
	r, err := check("random", 1, truth, joint)
	r.Case = "random, all in one step"
	return append(results, r.requireAbove()), err
}

// EnumerateRounds returns, by enumeration, the distributions over all sequences of a small model
// that MaskGIT and the moment sampler generate with one position per step.
func EnumerateRounds(m *exact.Model, alpha float64) (maskgit, moment []float64) {
	e := roundsEnumeration{
		m:     m,
		alpha: alpha,
		x:     slices.Repeat([]int32{int32(m.Tokens())}, m.Length()),
		p:     make([]float64, m.Length()*m.Tokens()),
	}
	maskgit = make([]float64, countSequences(m))
	moment = make([]float64, countSequences(m))
	e.open(maskgit, 1, 1, func(maskgit, _ []float64) []float64 { return maskgit })
	e.open(moment, 1, 1, func(_, moment []float64) []float64 { return moment })
	return maskgit, moment
}

// roundsEnumeration visits all ways to open a sequence, one position per step.
type roundsEnumeration struct {
	m     *exact.Model
	alpha float64
	x     []int32   // the sequence so far
	p     []float64 // [length, tokens] its conditionals
}

// open adds to out the distribution of sequences that begin as e.x, which has the probability q
// before a step. choose returns one of the two distributions that Round returns.
func (e *roundsEnumeration) open(out []float64, step int, q float64,
	choose func(maskgit, moment []float64) []float64) {
	length := e.m.Length()
	tokens := e.m.Tokens()
	if step > length {
		out[sequenceIndex(e.x, tokens)] += q
		return
	}

	e.m.Conditionals(e.p, e.x)
	var masked []int
	var rows [][]float64
	for i, token := range e.x {
		if int(token) == tokens {
			masked = append(masked, i)
			rows = append(rows, slices.Clone(e.p[i*tokens:(i+1)*tokens]))
		}
	}
	round := rows[0] // the last step has no temperature and no choice
	if step < length {
		round = choose(Round(rows, 1, samplers.AlphaAt(e.alpha, step, length)))
	}
	for j, r := range round {
		if r > 0 {
			i := masked[j/tokens]
			e.x[i] = int32(j % tokens)
			e.open(out, step+1, q*r, choose)
			e.x[i] = int32(tokens)
		}
	}
}
