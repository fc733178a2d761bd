package samplers

import "math"

// P2 is path planning with the model as its own planner (Peng et al. 2025, "Path planning for
// masked diffusion model sampling"). Every step ranks all positions, masked ones by log p of a
// drawn token and open ones by eta times log p of their token. The lowest are left masked or are
// masked again. The schedule gives the number that stays masked.
type P2 struct {
	Tau float64 `param:"tau 1e-3..1e3 =1" help:"temperature of the draw"`
	Eta float64 `param:"eta 1e-9..1e6 =1" help:"weight of open positions; above 1 masks them again more often"`

	// By says which token's probability ranks a position. With tokens, the paper's own, a masked
	// position has a drawn token and an open one its own. With draws, as in Open-dCoder's
	// generation_utils.py, an open position too is ranked by a token drawn anew in every step, which
	// it does not become. With likeliest it is the most probable token at each.
	By string `param:"by tokens|draws|likeliest" help:"rank by the tokens, by tokens drawn anew at each step, or by the likeliest"`
}

// draws is the value of By that ranks open positions by fresh draws.
const draws = "draws"

// Remasks marks that P2 closes positions.
func (P2) Remasks() {}

// Needs a token at masked positions, and the log-probability of open ones or a token there too.
func (p P2) Needs(int, int) Need {
	if p.By == likeliest {
		return Need{Top: true, OpenTop: true}
	}
	need := Need{Draw: true, Power: 1 / WithDefaults(p).Tau}
	need.OpenDraw = p.By == draws
	need.OpenLogP = p.By != draws
	return need
}

// Choose opens and closes positions.
func (p P2) Choose(v *View) (Opening, error) {
	p = WithDefaults(p)
	maskedCount := len(v.Masked)
	positions := v.Ints(maskedCount + len(v.Open))[:0]
	positions = append(positions, v.Masked...)
	positions = append(positions, v.Open...)
	ranked := v.topOf(positions, len(v.Open)+v.Quota, func(i int) float64 {
		open := i - maskedCount // index in Open, below 0 for a masked position
		switch {
		case p.By == likeliest && open < 0:
			return math.Log(v.P1[i])
		case p.By == likeliest:
			return p.Eta * math.Log(v.OpenP1[open])
		case open < 0:
			return v.LogP[i]
		case p.By == draws:
			return p.Eta * v.OpenTokenLogP[open]
		default:
			return p.Eta * v.OpenLogP[open]
		}
	})

	staysOpen := v.Ints(len(v.Tokens)) // 1 where a position is open after the step
	o := Opening{Positions: v.Ints(v.Quota + len(v.Open))[:0], Close: v.Ints(len(v.Open))[:0]}
	for _, position := range ranked {
		staysOpen[position] = 1
		if v.Tokens[position] == v.Mask {
			o.Positions = append(o.Positions, position)
		}
	}
	if p.By != likeliest {
		v.setDrawnTokens(&o)
	}
	for _, position := range v.Open {
		if staysOpen[position] == 0 {
			o.Close = append(o.Close, position)
		}
	}
	return o, nil
}
