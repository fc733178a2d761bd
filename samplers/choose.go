package samplers

import "fmt"

// DefaultAlpha is the Gumbel temperature where none is given, the second of the four that
// the paper tries (3, 6, 9, 12).
const DefaultAlpha = 6.0

// ChooseThenSample chooses positions by an Order and then draws their tokens from p^gamma
// (Hayakawa et al. 2025, section 3 and algorithm "General choose-then-sample"). With gamma = 1
// and one position a step it is unbiased (proposition 2).
//
// The paper's samplers: moment is {Order: Moment{a}, Alpha: a}, u-moment {Order: Moment{a}},
// temp {Order: Random{}, Alpha: a}, random {Order: Random{}}, halton {Order: Halton{}}.
type ChooseThenSample struct {
	Order Order
	Alpha float64 // with Alpha != 0, gamma = 1+1/alpha_n, the temperature implicit in MaskGIT
	Gamma float64 // otherwise gamma; 0 means 1
}

// Needs is what the order needs.
func (c ChooseThenSample) Needs(step, steps int) Need { return c.Order.Needs(step, steps) }

// Choose ranks as many positions as the schedule opens. The last step has no temperature
// (the paper's appendix "Sampling schedule").
func (c ChooseThenSample) Choose(v *View) (Opening, error) {
	return Opening{Positions: c.Order.Rank(v, v.Quota), Power: c.power(v.Step, v.Steps)}, nil
}

func (c ChooseThenSample) power(step, steps int) float64 {
	switch {
	case step >= steps:
		return 1
	case c.Alpha != 0:
		return Beta(c.Alpha, step, steps)
	case c.Gamma != 0:
		return c.Gamma
	}
	return 1
}

// Check wants an order and exponents above 0.
func (c ChooseThenSample) Check() error {
	if c.Order == nil {
		return fmt.Errorf("samplers: ChooseThenSample without an Order")
	}
	if err := positive("alpha", c.Alpha); err != nil {
		return err
	}
	return positive("gamma", c.Gamma)
}

// Unwrap returns the order.
func (c ChooseThenSample) Unwrap() []any { return []any{c.Order} }

// AlphaAt is alpha_n = alpha*(1-n/N), 0 in the last step.
func AlphaAt(alpha float64, step, steps int) float64 {
	return alpha * max(0, 1-float64(step)/float64(steps))
}

// Beta is 1+1/alpha_n before the last step and 1 in it, where the paper lets alpha_N go to
// infinity.
func Beta(alpha float64, step, steps int) float64 {
	if a := AlphaAt(alpha, step, steps); a > 0 {
		return 1 + 1/a
	}
	return 1
}

// positive accepts 0, which stands for a default, and finite numbers above it.
func positive(name string, x float64) error {
	if x >= 0 && x <= 1e6 {
		return nil
	}
	return fmt.Errorf("samplers: %s is %v, want more than 0 and at most 1e6", name, x)
}

// fraction accepts 0, which stands for a default, to 1.
func fraction(name string, x float64) error {
	if x >= 0 && x <= 1 {
		return nil
	}
	return fmt.Errorf("samplers: %s is %v, want more than 0 and at most 1", name, x)
}

func orDefault(x, def float64) float64 {
	if x == 0 {
		return def
	}
	return x
}
