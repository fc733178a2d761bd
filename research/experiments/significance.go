package experiments

import (
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// A claim is a set of tests that must all succeed, and its opposite a set of which one must. Each
// test is one-sided, by Student's distribution with JackknifeGroups-1 degrees of freedom, and the
// tests of one side are corrected for their number by Holm's method (Holm 1979).
const (
	// sideLevel is the chance of deciding for one side by error, where a difference has a direction:
	// 5 % for both sides together.
	sideLevel = 0.025

	// equalLevel is that of finding two values equal within a margin, by two one-sided tests
	// (Schuirmann 1987).
	equalLevel = 0.05
)

// studentHalfWidth is the half width, in standard errors, of a 95 % interval of that distribution.
const studentHalfWidth = 2.262

// test asks whether a measure is beyond a threshold.
type test struct {
	measure   Measure
	threshold float64

	// isAbove says on which side of the threshold the measure should be.
	isAbove bool
}

// above asks whether a measure is above a threshold.
func above(m Measure, threshold float64) test { return test{m, threshold, true} }

// below asks whether a measure is below a threshold.
func below(m Measure, threshold float64) test { return test{m, threshold, false} }

// within asks by two tests whether a measure is less than a margin away from a value.
func within(m Measure, value, margin float64) []test {
	return []test{above(m, value-margin), below(m, value+margin)}
}

// outside asks by two tests whether a measure is more than a margin away from a value.
func outside(m Measure, value, margin float64) []test {
	return []test{below(m, value-margin), above(m, value+margin)}
}

// p returns the probability of a measure that is as far beyond the threshold, if the true value
// were the threshold.
func (t test) p() float64 {
	distance := t.measure.Value - t.threshold
	if !t.isAbove {
		distance = -distance
	}
	standardError := t.measure.Error()
	if standardError == 0 {
		if distance > 0 {
			return 0
		}
		return 1
	}
	student := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: JackknifeGroups - 1}
	return student.Survival(distance / standardError)
}

// adjustHolm returns the probabilities of tests, corrected for their number: a test is significant
// at a level if its corrected probability is at most that (Holm 1979, "A simple sequentially
// rejective multiple test procedure"). The least probability counts as many times as there are
// tests, the next one time less, and none less than those before it.
func adjustHolm(tests []test) []float64 {
	order := make([]int, len(tests))
	p := make([]float64, len(tests))
	for i, t := range tests {
		order[i] = i
		p[i] = t.p()
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	adjusted := make([]float64, len(tests))
	largest := 0.0
	for rank, i := range order {
		largest = max(largest, min(1, p[i]*float64(len(tests)-rank)))
		adjusted[i] = largest
	}
	return adjusted
}

// allSucceed reports whether all tests are significant at a level.
func allSucceed(tests []test, level float64) bool {
	return len(tests) > 0 && slices.Max(adjustHolm(tests)) <= level
}

// oneSucceeds reports whether some test is significant at a level.
func oneSucceeds(tests []test, level float64) bool {
	return len(tests) > 0 && slices.Min(adjustHolm(tests)) <= level
}

// haveErrors reports whether all measures that are tested have errors.
func haveErrors(tests []test) bool {
	return !slices.ContainsFunc(tests, func(t test) bool { return !t.measure.hasError() })
}

// decide completes v: it holds if all tests of the claim succeed, and does not hold if one of those
// against it does.
func (v Verdict) decide(claimed, against []test) Verdict {
	if !haveErrors(claimed) || !haveErrors(against) {
		return v
	}
	v.Holds = allSucceed(claimed, sideLevel)
	v.Decided = v.Holds || oneSucceeds(against, sideLevel)
	return v
}

// decideEqual is decide for a claim that values are equal within a margin. Its tests come from
// within and need no correction for their number, because all of them must succeed.
func (v Verdict) decideEqual(claimed, against []test) Verdict {
	if !haveErrors(claimed) || !haveErrors(against) {
		return v
	}
	v.Holds = !slices.ContainsFunc(claimed, func(t test) bool { return t.p() > equalLevel })
	v.Decided = v.Holds || oneSucceeds(against, sideLevel)
	return v
}
