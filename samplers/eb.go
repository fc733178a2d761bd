package samplers

import "cmp"

// EB is entropy-bounded unmasking (Ben-Hamu et al. 2025, "Accelerated sampling from masked
// diffusion models via entropy bounded unmasking"). It opens the largest prefix of an order for
// which sum(H) - max(H) is within a budget, and at least one position. That sum bounds the error of
// drawing the prefix in one step. The number of steps is a result.
type EB struct {
	// Order is by the error proxy, smallest first.
	Order  Order   `inside:"entropy"`
	Budget float64 `param:"budget 1e-12..1e6 =0.1" help:"entropy that a step may open beyond its largest, nats"`
	ownPace
}

// order returns the order inside.
func (e EB) order() Order { return cmp.Or(e.Order, defaultOrder[EB](0)) }

// Needs entropies and what the order needs.
func (e EB) Needs(step, steps int) Need {
	return e.order().Needs(step, steps).Union(Need{Entropy: true})
}

// Choose opens the prefix.
func (e EB) Choose(v *View) (Opening, error) {
	budget := WithDefaults(e).Budget
	ranked := e.order().Rank(v, len(v.Masked))
	sum := 0.0
	largest := 0.0
	n := 0
	for _, p := range ranked {
		entropy := v.Entropy[v.Index(p)]
		sum += entropy
		largest = max(largest, entropy)
		if n > 0 && sum-largest > budget {
			break
		}
		n++
	}
	return Opening{Positions: ranked[:n]}, nil
}
