package experiments

import (
	"math"
	"slices"
)

// Followup is the next work that could decide a claim.
type Followup struct {
	Claim  string
	Kind   string  // of its model: text, image or an exact law's
	Points []Point // to measure: further seeds of what the verdict depends on
	Cost   float64 // seconds of generation, by the results so far
}

// ChooseFollowup returns the undecided claim that would be decided in the shortest time if its
// values stayed as they are, and what to measure for it: as many further seeds as that takes, but
// at most as many as there are, so that the claim is looked at again before its samples have more
// than doubled. ok is false if all claims are decided, or none can be with 16384 times the samples.
//
// Each look is at 95 %. Of claims whose difference is truly 0, more than 5 % are therefore decided
// after several looks: about 8, 11, 13 and 14 % after two to five (Armitage, McPherson & Rowe 1969,
// for looks at equal distances).
func ChooseFollowup(results []Result, s Size) (next Followup, ok bool) {
	next.Cost = math.Inf(1)
	for _, v := range Verdicts(results, s) {
		if v.Decided || v.SamplesFactor == 0 {
			continue
		}
		if n := v.planFollowup(results, s); len(n.Points) > 0 && n.Cost < next.Cost {
			next = n
			ok = true
		}
	}
	return next, ok
}

// planFollowup returns the further seeds that a verdict asks for.
func (v Verdict) planFollowup(results []Result, s Size) Followup {
	next := Followup{Claim: v.Claim, Kind: v.kind}
	t := Table{Kind: v.kind, Results: results, N: s.gridOf(v.kind).N}
	for _, c := range v.dependsOn {
		have := t.resultsAt(c.method, c.steps)
		if len(have) == 0 {
			return Followup{Kind: v.kind, Claim: v.Claim} // a part of the figure that was not measured
		}
		seeds := len(have)
		p := have[0].Point
		seconds := 0.0
		for _, r := range have {
			for _, x := range r.Seconds {
				seconds += x / float64(seeds)
			}
		}
		want := int(math.Ceil(v.SamplesFactor * float64(seeds)))
		next.Cost += seconds * float64(want-seeds) // of all that the claim would need
		for added := 0; seeds+added < min(max(want, seeds+1), 2*seeds); added++ {
			p.Seed = have[len(have)-1].Seed + 1 + uint64(added)
			next.Points = append(next.Points, p)
		}
	}
	return next
}

// SelectResults returns results of the size's points, and of further seeds of them that Decide
// asked for.
func (s Size) SelectResults(kind string, results []Result) []Result {
	points := s.Points(kind)
	for i := range points {
		points[i].Seed = 0
	}
	return slices.DeleteFunc(slices.Clone(results), func(r Result) bool {
		p := r.Point
		p.Seed = 0
		return r.Kind != kind || !slices.Contains(points, p)
	})
}

// CountMissing returns the number of the size's points without a result.
func (s Size) CountMissing(kind string, results []Result) int {
	have := Journal{Results: results}
	points := s.Points(kind)
	return len(points) - len(have.Select(kind, points))
}
