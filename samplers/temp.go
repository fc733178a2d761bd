package samplers

// Temp chooses positions uniformly at random and draws their tokens from p^beta_n, the temperature
// implicit in MaskGIT, without MaskGIT's choice (Hayakawa et al. 2025, section 5: "Temp").
type Temp struct {
	Alpha float64 `param:"alpha 1e-3..1e6 =6" help:"Gumbel temperature"`
}

// Ordering returns the order.
func (Temp) Ordering() Order { return Random{} }

// Needs nothing: positions are chosen first.
func (Temp) Needs(int, int) Need { return Need{} }

// Choose opens Quota random positions.
func (t Temp) Choose(v *View) (Opening, error) {
	power := Beta(WithDefaults(t).Alpha, v.Step, v.Steps)
	return Opening{Positions: Random{}.Rank(v, v.Quota), Power: power}, nil
}

// Ranking returns Random's ranking with the exponent beta_n.
func (t Temp) Ranking(step, steps int, shape []int) (Ranking, bool) {
	r, ok := Random{}.Ranking(step, steps, shape)
	r.Power = Beta(WithDefaults(t).Alpha, step, steps)
	return r, ok
}
