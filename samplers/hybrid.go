package samplers

import (
	"fmt"
	"math"
	"slices"

	"unmask/internal/philox"
)

// Hybrid takes the first m_n = round((1-n/N)*k) positions of one order, then follows the
// other, without those, to k (Hayakawa et al. 2025, section 4.2 and appendix "Hybrid
// algorithm"). It begins with exploration and moves to exploitation.
type Hybrid struct {
	Explore Order // nil means Halton{}
	Exploit Order // nil means Moment{}
}

func (h Hybrid) orders() (explore, exploit Order) {
	explore, exploit = h.Explore, h.Exploit
	if explore == nil {
		explore = Halton{}
	}
	if exploit == nil {
		exploit = Moment{}
	}
	return explore, exploit
}

// Needs is what both orders need.
func (h Hybrid) Needs(step, steps int) Need {
	a, b := h.orders()
	return a.Needs(step, steps).With(b.Needs(step, steps))
}

// Rank merges both orders.
func (h Hybrid) Rank(v *View, k int) []int {
	explore, exploit := h.orders()
	m := int(math.RoundToEven((1 - float64(v.Step)/float64(v.Steps)) * float64(k)))
	m = max(0, min(m, k))
	merged := v.Ints(k)[:0]
	merged = append(merged, explore.Rank(v, m)...)
	noise := v.Noise
	v.Noise = philox.Reorder // so that the two orders are independent
	second := exploit.Rank(v, k)
	v.Noise = noise
	for _, p := range second {
		if len(merged) < k && !slices.Contains(merged[:m], p) {
			merged = append(merged, p)
		}
	}
	return merged
}

// Check refuses two moments of different exponents: the head computes one a step.
func (h Hybrid) Check() error {
	a, b := h.orders()
	if x, y := a.Needs(1, 2).Beta, b.Needs(1, 2).Beta; x != 0 && y != 0 && x != y {
		return fmt.Errorf("samplers: hybrid of two moment orders with different alpha, want one alpha")
	}
	return nil
}

// Unwrap returns both orders.
func (h Hybrid) Unwrap() []any { a, b := h.orders(); return []any{a, b} }
