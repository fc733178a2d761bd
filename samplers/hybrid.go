package samplers

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"unmask/backend/rank"
)

// Hybrid takes the first m_n = round((1-n/N)*k) positions from one order and the rest, up to k,
// from another (Hayakawa et al. 2025, section 4.2 and appendix "Hybrid algorithm"). It begins with
// exploration and moves to exploitation.
type Hybrid struct {
	Explore Order `inside:"halton"`
	Exploit Order `inside:"u-moment"`
}

func (h Hybrid) orders() (explore, exploit Order) {
	return cmp.Or[Order](h.Explore, Halton{}), cmp.Or[Order](h.Exploit, UMoment{})
}

// Needs what both orders need.
func (h Hybrid) Needs(step, steps int) Need {
	a, b := h.orders()
	return a.Needs(step, steps).Union(b.Needs(step, steps))
}

// NeedsFor needs what one of the orders needs if that one chooses all k positions. With Halton
// first the head then runs at no more than the chosen rows: in the first steps, if few open in
// each.
func (h Hybrid) NeedsFor(step, steps, k int) Need {
	explore, exploit := h.orders()
	switch exploring(step, steps, k) {
	case k:
		return NeedsFor(explore, step, steps, k)
	case 0:
		return NeedsFor(exploit, step, steps, k)
	}
	return h.Needs(step, steps)
}

// exploring returns m_n, how many of k positions follow the first order.
func exploring(step, steps, k int) int {
	m := int(math.RoundToEven((1 - float64(step)/float64(steps)) * float64(k)))
	return max(0, min(m, k))
}

// Rank merges both orders.
func (h Hybrid) Rank(v *View, k int) []int {
	explore, exploit := h.orders()
	m := exploring(v.Step, v.Steps, k)
	merged := v.Ints(k)[:0]
	if m > 0 {
		merged = append(merged, explore.Rank(v, m)...)
	}
	if m == k { // what the second order needs may not be there, see NeedsFor
		return merged
	}
	// with noise of its own, so that the orders are independent
	for _, p := range exploit.Rank(v.with(ForReorder), k) {
		if len(merged) < k && !slices.Contains(merged[:m], p) {
			merged = append(merged, p)
		}
	}
	return merged
}

// Ranking ranks by the first order's measure and then by the second's.
func (h Hybrid) Ranking(step, steps int, shape []int) (Ranking, bool) {
	explore, exploit := h.orders()
	a, first := RankingOf(explore, step, steps, shape)
	b, second := RankingOf(exploit, step, steps, shape)
	if !first || !second || a.Share != 1 || b.Share != 1 {
		return Ranking{}, false
	}
	r := Ranking{Measures: [2]rank.Measure{a.Measures[0], b.Measures[0]},
		Share: 1 - float64(step)/float64(steps)}
	if r.Order = a.Order; r.Order == nil {
		r.Order = b.Order
	}
	r.Beta, r.Noise = max(a.Beta, b.Beta), max(a.Noise, b.Noise)
	return r, true
}

// Check returns an error for two moments of different exponents: the head computes one per step.
func (h Hybrid) Check() error {
	a, b := h.orders()
	if x, y := a.Needs(1, 2).Beta, b.Needs(1, 2).Beta; x != 0 && y != 0 && x != y {
		return fmt.Errorf("samplers: hybrid of two moment orders with different alpha, want one alpha")
	}
	return nil
}
