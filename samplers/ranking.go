package samplers

import (
	"math"

	"unmask/backend"
)

// Ranking is what a rule comes to at a step where it ranks by measures that a device knows (backend.Chooser): the same
// positions and tokens as Choose would give, from the same noise.
type Ranking struct {
	By    [2]backend.Measure // of the first positions, and of the others
	Share float64            // of a step's positions that follow By[0]
	Order []int32            // ByOrder: positions, the first to open first
	Beta  float64            // ByMoment
	Noise float64            // ByDraw
	Power float64            // tokens from p^Power
}

// First is how many of k positions follow By[0].
func (r Ranking) First(k int) int {
	return max(0, min(int(math.RoundToEven(r.Share*float64(k))), k))
}

// RankingOf is the ranking of a rule at a step over positions of a shape; false where it is none.
func RankingOf(s Sampler, step, steps int, shape []int) (r Ranking, ok bool) {
	switch s := s.(type) {
	case MaskGIT:
		r.By = [2]backend.Measure{backend.ByDraw, backend.ByDraw}
		r.Noise, r.Share, r.Power = AlphaAt(orDefault(s.Alpha, DefaultAlpha), step, steps), 1, 1
		return r, true
	case ChooseThenSample:
		r.Power = s.power(step, steps)
		if h, hybrid := s.Order.(Hybrid); hybrid {
			explore, exploit := h.orders()
			r.Share = 1 - float64(step)/float64(steps)
			return r, r.measure(0, explore, step, steps, shape) && r.measure(1, exploit, step, steps, shape)
		}
		r.Share = 1
		return r, r.measure(0, s.Order, step, steps, shape)
	}
	return r, false
}

// measure sets what an order ranks by.
func (r *Ranking) measure(i int, o Order, step, steps int, shape []int) bool {
	switch o := o.(type) {
	case Random:
		r.By[i] = backend.ByNoise
	case Halton:
		r.By[i], r.Order = backend.ByOrder, HaltonOrder(shape...)
	case Moment:
		r.By[i] = backend.ByNoise
		if step < steps {
			r.By[i], r.Beta = backend.ByMoment, o.Needs(step, steps).Beta
		}
	default:
		return false
	}
	return true
}
