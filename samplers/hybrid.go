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

// orders returns the two orders inside.
func (h Hybrid) orders() (explore, exploit Order) {
	return cmp.Or(h.Explore, defaultOrder[Hybrid](0)), cmp.Or(h.Exploit, defaultOrder[Hybrid](1))
}

// Needs what both orders need.
func (h Hybrid) Needs(step, steps int) Need {
	explore, exploit := h.orders()
	return explore.Needs(step, steps).Union(exploit.Needs(step, steps))
}

// NeedsFor needs what one of the orders needs if that one chooses all k positions. With Halton
// first the head then runs at no more than the chosen rows: in the first steps, if few open in
// each.
func (h Hybrid) NeedsFor(step, steps, k int) Need {
	explore, exploit := h.orders()
	switch exploreCount(step, steps, k) {
	case k:
		return NeedsFor(explore, step, steps, k)
	case 0:
		return NeedsFor(exploit, step, steps, k)
	}
	return h.Needs(step, steps)
}

// exploreCount returns m_n, how many of k positions follow the first order.
func exploreCount(step, steps, k int) int {
	m := int(math.RoundToEven((1 - float64(step)/float64(steps)) * float64(k)))
	return max(0, min(m, k))
}

// Rank merges both orders.
func (h Hybrid) Rank(v *View, k int) []int {
	explore, exploit := h.orders()
	m := exploreCount(v.Step, v.Steps, k)
	merged := v.Ints(k)[:0]
	if m > 0 {
		merged = append(merged, explore.Rank(v, m)...)
	}
	if m == k { // what the second order needs may not be there, see NeedsFor
		return merged
	}

	// The second order has noise of its own, so that the two are independent.
	for _, p := range exploit.Rank(v.withNoise(ForReorder), k) {
		if len(merged) < k && !slices.Contains(merged[:m], p) {
			merged = append(merged, p)
		}
	}
	return merged
}

// Ranking ranks by the first order's measure and then by the second's.
func (h Hybrid) Ranking(step, steps int, shape []int) (Ranking, bool) {
	explore, exploit := h.orders()
	first, canExplore := RankingOf(explore, step, steps, shape)
	second, canExploit := RankingOf(exploit, step, steps, shape)
	if !canExplore || !canExploit || first.Share != 1 || second.Share != 1 {
		return Ranking{}, false
	}
	r := Ranking{
		Measures: [2]rank.Measure{first.Measures[0], second.Measures[0]},
		Share:    1 - float64(step)/float64(steps),
		Order:    first.Order,
		Beta:     max(first.Beta, second.Beta),
		Noise:    max(first.Noise, second.Noise),
	}
	if r.Order == nil {
		r.Order = second.Order
	}
	return r, true
}

// Check returns an error for two moments of different exponents: the head computes one per step.
func (h Hybrid) Check() error {
	explore, exploit := h.orders()
	first := explore.Needs(1, 2).Beta
	second := exploit.Needs(1, 2).Beta
	if first != 0 && second != 0 && first != second {
		return fmt.Errorf("samplers: hybrid of two moment orders with different alpha, want one alpha")
	}
	return nil
}
