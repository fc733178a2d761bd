package samplers

import (
	"cmp"

	"unmask/param"
)

// EB is entropy-bounded unmasking (Ben-Hamu et al. 2025, "Accelerated sampling from masked
// diffusion models via entropy bounded unmasking"). It opens the largest prefix of an order for
// which sum(H) - max(H) is within a budget, and at least one position. That sum bounds the error of
// drawing the prefix in one step. The number of steps is a result.
type EB struct {
	Order  Order   // by the error proxy, smallest first; nil means Entropy{}
	Budget float64 // gamma in the paper, nats; 0 means 0.1
	ownPace
}

var ebRule = Rule[EB]{
	Name:  "eb",
	Line:  "as many as an entropy budget allows, by any order",
	Paper: "Ben-Hamu et al. 2025, Entropy Bounded Unmasking",
	Params: []Param[EB]{Number(func(e *EB) *float64 { return &e.Budget },
		param.Param{Name: "budget", Min: 1e-12, Max: 1e6, Default: "0.1",
			Help: "entropy that a step may open beyond its largest, nats"})},
	Inside: []Inside[EB]{OrderInside(func(e *EB) *Order { return &e.Order }, Entropy{})},
}

func (e EB) order() Order {
	return cmp.Or[Order](e.Order, Entropy{})
}

// Needs entropies and what the order needs.
func (e EB) Needs(step, steps int) Need {
	return e.order().Needs(step, steps).With(Need{Entropy: true})
}

// Choose opens the prefix.
func (e EB) Choose(v *View) (Opening, error) {
	ranked := e.order().Rank(v, len(v.Masked))
	budget := cmp.Or(e.Budget, 0.1)
	sum, largest, n := 0.0, 0.0, 0
	for _, p := range ranked {
		h := v.Entropy[v.Index(p)]
		sum, largest = sum+h, max(largest, h)
		if n > 0 && sum-largest > budget {
			break
		}
		n++
	}
	return Opening{Positions: ranked[:n]}, nil
}

// Unwrap returns the order.
func (e EB) Unwrap() []any { return []any{e.order()} }
