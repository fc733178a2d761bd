package samplers

import "fmt"

// P2 is path planning with the model as its own planner (Peng et al. 2025, "Path planning for
// masked diffusion model sampling"): every step ranks all positions, drawn tokens by
// log p(x_i) and open ones by eta times the log-probability of what they hold, and leaves
// masked the lowest: also what was open before. How many stay masked is the schedule's.
type P2 struct {
	Tau float64 // temperature of the draw; 0 means 1
	Eta float64 // weight of open positions: above 1 masks them again more often; 0 means 1
}

// Remasks says that P2 closes positions.
func (P2) Remasks() {}

// Needs a draw at masked positions, and what is thought of open ones.
func (p P2) Needs(int, int) Need {
	return Need{Draw: true, Power: 1 / orDefault(p.Tau, 1), Open: true}
}

// Choose opens and closes.
func (p P2) Choose(v *View) (Opening, error) {
	masked, eta := v.Masked, orDefault(p.Eta, 1)
	v.Masked = append(append(v.Ints(len(masked) + len(v.Open))[:0], masked...), v.Open...) // ranked together
	ranked := v.Top(len(v.Open)+v.Quota, func(i int) float64 {
		if i < len(masked) {
			return v.LogP[i]
		}
		return eta * v.OpenLogP[i-len(masked)]
	})
	v.Masked = masked
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
	v.drawn(&o)
	for _, at := range v.Open {
		if keep[at] == 0 {
			o.Close = append(o.Close, at)
		}
	}
	return o, nil
}

// Uncached says why there is no second stage.
func (P2) Uncached() string { return "p2 draws tokens before it chooses positions" }

// Check wants a temperature and a weight of at least 0.
func (p P2) Check() error {
	if p.Tau != 0 && (p.Tau < 1e-3 || p.Tau > 1e3 || p.Tau != p.Tau) {
		return fmt.Errorf("samplers: tau is %v, want 0.001 to 1000", p.Tau)
	}
	return positive("eta", p.Eta)
}
