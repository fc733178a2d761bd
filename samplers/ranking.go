package samplers

import (
	"math"

	"unmask/backend/rank"
)

// DeviceRanked is a sampler or order that a device can apply by itself (backend.Chooser). Ranking
// returns false for a step at which it cannot. step, steps and shape are as in View.
type DeviceRanked interface {
	Ranking(step, steps int, shape []int) (Ranking, bool)
}

// Ranking is one step of a rule in terms that a device can compute. It must give the positions and
// tokens that Choose gives from the same noise.
type Ranking struct {
	Measures [2]rank.Measure // measures of the first positions and of the others
	Share    float64         // share of the step's positions that follow By[0]; 1 means all
	// Order is for ByOrder: [positions], the first to open first. Sequences whose Order is the same
	// slice are chosen together, so a rule should keep one slice per shape, as HaltonOrder does.
	Order []int32
	Beta  float64 // for ByMoment
	Noise float64 // for ByDraw
	Power float64 // tokens are drawn from p^Power; samplers set it
}

// only returns a Ranking of all positions by one measure.
func only(by rank.Measure) Ranking { return Ranking{Measures: [2]rank.Measure{by, by}, Share: 1} }

// FirstCount returns the number of k positions that follow By[0].
func (r Ranking) FirstCount(k int) int {
	return max(0, min(int(math.RoundToEven(r.Share*float64(k))), k))
}

// Simplify returns the ranking of k positions: without the second measure where all follow the
// first.
func (r Ranking) Simplify(k int) Ranking {
	if r.Share == 1 || r.FirstCount(k) < k {
		return r
	}
	r.Share, r.Measures[1] = 1, r.Measures[0]
	if r.Measures[0] != rank.ByMoment {
		r.Beta = 0
	}
	return r
}

// RankingOf returns the ranking of a sampler or order, or false if it has none at this step.
func RankingOf(rule any, step, steps int, shape []int) (Ranking, bool) {
	if d, ok := rule.(DeviceRanked); ok {
		return d.Ranking(step, steps, shape)
	}
	return Ranking{}, false
}
