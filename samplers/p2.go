package samplers

import (
	"cmp"
	"math"
)

// P2 is path planning with the model as its own planner (Peng et al. 2025, "Path planning for
// masked diffusion model sampling"). Every step ranks all positions, masked ones by log p of a
// drawn token and open ones by eta times log p of their token. The lowest are left masked or are
// masked again. The schedule gives the number that stays masked.
type P2 struct {
	Tau float64 `param:"tau 1e-3..1e3 =1" help:"temperature of the draw"`
	Eta float64 `param:"eta 1e-9..1e6 =1" help:"weight of open positions; above 1 masks them again more often"`
	// likeliest is the most probable token at each, masked or open (Open-dCoder's generate)
	By string `param:"by tokens|likeliest" help:"rank positions by their tokens, or by the likeliest token at each"`
}

// Remasks marks that P2 closes positions.
func (P2) Remasks() {}

// Needs a token at masked positions and the log-probability of open ones.
func (p P2) Needs(int, int) Need {
	if p.By == likeliest {
		return Need{Top: true, OpenTop: true}
	}
	return Need{Draw: true, Power: 1 / cmp.Or(p.Tau, 1), OpenLogP: true}
}

// Choose opens and closes positions.
func (p P2) Choose(v *View) (Opening, error) {
	masked, eta := v.Masked, cmp.Or(p.Eta, 1)
	both := append(append(v.Ints(len(masked) + len(v.Open))[:0], masked...), v.Open...)
	ranked := v.top(both, len(v.Open)+v.Quota, func(i int) float64 {
		switch at := i - len(masked); {
		case p.By == likeliest && at < 0:
			return math.Log(v.P1[i])
		case p.By == likeliest:
			return eta * math.Log(v.OpenP1[at])
		case at < 0:
			return v.LogP[i]
		default:
			return eta * v.OpenLogP[at]
		}
	})
	keep := v.Ints(len(v.Tokens))
	for _, at := range ranked {
		keep[at] = 1
	}
	o := Opening{Positions: v.Ints(v.Quota + len(v.Open))[:0], Close: v.Ints(len(v.Open))[:0]}
	for _, at := range ranked {
		if v.Tokens[at] == v.Mask {
			o.Positions = append(o.Positions, at)
		}
	}
	if p.By != likeliest {
		v.drawn(&o)
	}
	for _, at := range v.Open {
		if keep[at] == 0 {
			o.Close = append(o.Close, at)
		}
	}
	return o, nil
}
