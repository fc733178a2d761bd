package samplers

import "unmask/backend/rank"

// UMoment orders positions by log sum_x p_i(x)^beta + xi_i with beta = 1+1/alpha_n and standard
// Gumbel noise xi (Hayakawa et al. 2025, step MM1 of the moment sampler). This is Gumbel-top-k:
// positions are drawn without replacement with weights ||p_i||_beta^beta (proposition 1). As a
// ChooseThenSample it is the paper's u-moment, with tokens from p.
//
// In the last step beta is 1, so all moments are equal and the order is uniform.
type UMoment struct {
	Alpha float64 `param:"alpha 1e-3..1e6 =6" help:"Gumbel temperature"`
}

// Needs the moment, except in the last step.
func (m UMoment) Needs(step, steps int) Need {
	if step >= steps {
		return Need{}
	}
	return Need{Beta: Beta(WithDefaults(m).Alpha, step, steps)}
}

// Rank returns the k positions with the largest scores.
func (m UMoment) Rank(v *View, k int) []int {
	if v.Step >= v.Steps {
		return v.Top(k, v.Uniform)
	}
	return v.Top(k, func(i int) float64 { return v.LogMoment[i] + v.Gumbel(i) })
}

// Ranking ranks by moment and, in the last step, by noise.
func (m UMoment) Ranking(step, steps int, _ []int) (Ranking, bool) {
	if step >= steps {
		return rankBy(rank.ByNoise), true
	}
	r := rankBy(rank.ByMoment)
	r.Beta = m.Needs(step, steps).Beta
	return r, true
}

// Moment is the moment sampler: UMoment's order, with tokens from p^beta_n, the temperature
// implicit in MaskGIT (Hayakawa et al. 2025, algorithm "Moment sampler"). It chooses positions
// first, and approaches MaskGIT when far more positions are masked than open (theorem 1).
type Moment struct {
	Alpha float64 `param:"alpha 1e-3..1e6 =6" help:"Gumbel temperature"`
}

// Ordering returns the order.
func (m Moment) Ordering() Order { return UMoment(m) }

// Needs what the order needs.
func (m Moment) Needs(step, steps int) Need { return UMoment(m).Needs(step, steps) }

// Choose ranks the schedule's number of positions; their tokens follow p^beta_n.
func (m Moment) Choose(v *View) (Opening, error) {
	power := Beta(WithDefaults(m).Alpha, v.Step, v.Steps)
	return Opening{Positions: UMoment(m).Rank(v, v.Quota), Power: power}, nil
}

// Ranking returns the order's ranking with the exponent beta_n.
func (m Moment) Ranking(step, steps int, shape []int) (Ranking, bool) {
	r, ok := UMoment(m).Ranking(step, steps, shape)
	r.Power = Beta(WithDefaults(m).Alpha, step, steps)
	return r, ok
}
