package samplers

import "unmask/backend/rank"

// MaskGIT draws x_i ~ p_i at every masked position and keeps the k largest log p_i(x_i) +
// alpha_n*xi_i (Chang et al. 2022; Hayakawa et al. 2025, algorithm "One-round of MaskGIT sampler").
// Because it draws before it chooses, the tokens that it keeps follow p^beta with beta =
// 1+1/alpha_n if many positions are masked (equation 3).
type MaskGIT struct {
	Alpha float64 `param:"alpha 1e-3..1e6 =6" help:"Gumbel temperature"`
}

// Needs a token at every masked position.
func (MaskGIT) Needs(int, int) Need { return Need{Draw: true} }

// Choose keeps the schedule's number of tokens.
func (m MaskGIT) Choose(v *View) (Opening, error) {
	alpha := AlphaAt(WithDefaults(m).Alpha, v.Step, v.Steps)
	score := func(i int) float64 { return v.LogP[i] + alpha*v.Gumbel(i) }
	o := Opening{Positions: v.Top(v.Quota, score)}
	v.setDrawnTokens(&o)
	return o, nil
}

// Ranking ranks by the probabilities of drawn tokens.
func (m MaskGIT) Ranking(step, steps int, _ []int) (Ranking, bool) {
	r := rankBy(rank.ByDraw)
	r.Noise = AlphaAt(WithDefaults(m).Alpha, step, steps)
	r.Power = 1
	return r, true
}
