package samplers

import (
	"math"

	"unmask/backend"
)

// DeviceRanked is a sampler or order that a device may follow by itself (backend.Chooser). Ranking
// returns false for a step at which it may not. Steps and shape are as in View.
type DeviceRanked interface {
	Ranking(step, steps int, shape []int) (Ranking, bool)
}

// Ranking is one step of a rule in terms that a device can compute. It must give the positions
// and tokens that Choose gives from the same noise.
type Ranking struct {
	By    [2]backend.Measure // of the first positions, and of the others
	Share float64            // of a step's positions that follow By[0]; 1 where all do
	// ByOrder: [positions] the first to open first. Sequences whose orders are one slice are chosen
	// together, so a rule keeps that of a shape, as HaltonOrder does.
	Order []int32
	Beta  float64 // ByMoment
	Noise float64 // ByDraw
	Power float64 // tokens from p^Power; a sampler sets it
}

// only is a Ranking of all positions by one measure.
func only(by backend.Measure) Ranking { return Ranking{By: [2]backend.Measure{by, by}, Share: 1} }

// First returns how many of k positions follow By[0].
func (r Ranking) First(k int) int {
	return max(0, min(int(math.RoundToEven(r.Share*float64(k))), k))
}

// RankingOf returns the ranking of a sampler or order; false where it is not DeviceRanked.
func RankingOf(rule any, step, steps int, shape []int) (Ranking, bool) {
	if d, ok := rule.(DeviceRanked); ok {
		return d.Ranking(step, steps, shape)
	}
	return Ranking{}, false
}
