package samplers

import (
	"cmp"
	"fmt"

	"unmask/param"
)

// DefaultAlpha is the default Gumbel temperature, the second of the four in the paper (3, 6, 9,
// 12).
const DefaultAlpha = 6.0

// AlphaParam is the Gumbel temperature of the rules that have one. Below its range beta overflows
// float64 if there are many steps; a smaller alpha would change nothing.
var AlphaParam = param.Param{
	Name:    "alpha",
	Min:     1e-3,
	Max:     1e6,
	Default: param.Format(DefaultAlpha),
	Help:    "Gumbel temperature of maskgit, moment, u-moment, temp and hybrid; the last step has none",
}

// GammaParam is the exponent gamma of the tokens that an order draws: p^gamma.
var GammaParam = param.Param{
	Name:    "gamma",
	Min:     1e-3,
	Max:     1e6,
	Default: "1",
	Help:    "draw tokens from p^gamma, for orders: random, u-moment, halton, hybrid; p in the last step",
}

// ChooseThenSample chooses positions by an Order and then draws their tokens from p^gamma
// (Hayakawa et al. 2025, section 3 and algorithm "General choose-then-sample"). With gamma = 1
// and one position a step it is unbiased (proposition 2).
//
// The paper's u-moment is {Order: UMoment{a}}, random {Order: Random{}}, halton {Order: Halton{}}
// and hybrid {Order: Hybrid{}}. Moment and Temp draw from p^beta_n instead.
type ChooseThenSample struct {
	Order Order

	// Gamma is the exponent of the draw; 0 means 1.
	Gamma float64
}

// Needs returns what the order needs.
func (c ChooseThenSample) Needs(step, steps int) Need { return c.Order.Needs(step, steps) }

// NeedsFor implements Frugal.
func (c ChooseThenSample) NeedsFor(step, steps, k int) Need {
	return NeedsFor(c.Order, step, steps, k)
}

// Choose ranks as many positions as the schedule opens.
func (c ChooseThenSample) Choose(v *View) (Opening, error) {
	return Opening{Positions: c.Order.Rank(v, v.Quota), Power: c.power(v.Step, v.Steps)}, nil
}

// power returns the exponent of a step's draw. The last step has no temperature (Hayakawa et al.
// 2025, appendix "Sampling schedule").
func (c ChooseThenSample) power(step, steps int) float64 {
	if step >= steps {
		return 1
	}
	return cmp.Or(c.Gamma, 1)
}

// Ordering returns the order.
func (c ChooseThenSample) Ordering() Order { return c.Order }

// Ranking returns the order's ranking with the exponent gamma.
func (c ChooseThenSample) Ranking(step, steps int, shape []int) (Ranking, bool) {
	r, ok := RankingOf(c.Order, step, steps, shape)
	r.Power = c.power(step, steps)
	return r, ok
}

// Check returns an error for a missing order or a gamma out of range.
func (c ChooseThenSample) Check() error {
	if c.Order == nil {
		return fmt.Errorf("samplers: ChooseThenSample without an Order")
	}
	if err := GammaParam.Check(c.Gamma); err != nil {
		return fmt.Errorf("samplers: %w", err)
	}
	return nil
}

// Unwrap returns the order.
func (c ChooseThenSample) Unwrap() []any { return []any{c.Order} }

// AlphaAt returns alpha_n = alpha*(1-n/N) for n = step and N = steps; it is 0 in the last step
// (Hayakawa et al. 2025, appendix "Sampling schedule").
func AlphaAt(alpha float64, step, steps int) float64 {
	return alpha * max(0, 1-float64(step)/float64(steps))
}

// Beta returns beta_n = 1+1/alpha_n, the exponent of the moment and of the tokens that MaskGIT
// keeps (Hayakawa et al. 2025, equation 3). In the last step, where the paper lets alpha_N go to
// infinity, it is 1.
func Beta(alpha float64, step, steps int) float64 {
	if a := AlphaAt(alpha, step, steps); a > 0 {
		return 1 + 1/a
	}
	return 1
}
