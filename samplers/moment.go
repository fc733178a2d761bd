package samplers

// Moment orders by log sum_x p_i(x)^beta + xi_i with beta = 1+1/alpha_n and xi standard
// Gumbel noise (Hayakawa et al. 2025, step MM1 of the moment sampler): Gumbel-top-k, so the
// order is drawn without replacement with weights ||p_i||_beta^beta (proposition 1).
//
// In the last step beta is 1, all moments are equal and the order is uniform.
type Moment struct {
	Alpha float64 // 0 means DefaultAlpha
}

// Needs is the moment, but not in the last step.
func (m Moment) Needs(step, steps int) Need {
	if step >= steps {
		return Need{}
	}
	return Need{Beta: Beta(orDefault(m.Alpha, DefaultAlpha), step, steps)}
}

// Rank returns the k largest.
func (m Moment) Rank(v *View, k int) []int {
	if v.Step >= v.Steps {
		return v.Top(k, v.Uniform)
	}
	return v.Top(k, func(i int) float64 { return v.LogMoment[i] + v.Gumbel(i) })
}

// Check wants a finite temperature above 0.
func (m Moment) Check() error { return positive("alpha", m.Alpha) }
