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
	// Measures rank the first positions and the others.
	Measures [2]rank.Measure

	// Share is the share of the step's positions that follow Measures[0]; 1 means all.
	Share float64

	// Order is for ByOrder: [positions], the first to open first. Sequences whose Order is the same
	// slice are chosen together, so a rule should keep one slice per shape, as HaltonOrder does.
	Order []int32

	// Beta is for ByMoment, and Noise for ByDraw.
	Beta  float64
	Noise float64

	// Power is the exponent of p^Power that tokens are drawn from; samplers set it, orders do not.
	Power float64
}

// rankBy returns a Ranking of all positions by one measure.
func rankBy(measure rank.Measure) Ranking {
	return Ranking{Measures: [2]rank.Measure{measure, measure}, Share: 1}
}

// FirstCount returns the number of k positions that follow Measures[0].
func (r Ranking) FirstCount(k int) int {
	return max(0, min(int(math.RoundToEven(r.Share*float64(k))), k))
}

// Simplify returns the ranking of k positions without the second measure where all follow the
// first, so that a device does not compute what nothing is ranked by.
func (r Ranking) Simplify(k int) Ranking {
	if r.Share == 1 || r.FirstCount(k) < k {
		return r
	}
	r.Share = 1
	r.Measures[1] = r.Measures[0]
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
