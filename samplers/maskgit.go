package samplers

// MaskGIT draws x_i ~ p_i at every masked position and keeps the k largest
// log p_i(x_i) + alpha_n*xi_i (Chang et al. 2022; Hayakawa et al. 2025, algorithm "One-round of
// MaskGIT sampler"). It draws before it chooses: the tokens that it keeps follow p^beta
// with beta = 1+1/alpha_n where many are masked (equation 3).
type MaskGIT struct {
	Alpha float64 // Gumbel temperature; 0 means DefaultAlpha
}

// Needs a token at every masked position.
func (MaskGIT) Needs(int, int) Need { return Need{Draw: true} }

// Choose keeps as many as the schedule opens.
func (m MaskGIT) Choose(v *View) (Opening, error) {
	alpha := AlphaAt(orDefault(m.Alpha, DefaultAlpha), v.Step, v.Steps)
	o := Opening{Positions: v.Top(v.Quota, func(i int) float64 { return v.LogP[i] + alpha*v.Gumbel(i) })}
	v.drawn(&o)
	return o, nil
}

// Uncached says why there is no second stage.
func (MaskGIT) Uncached() string { return "maskgit draws tokens before it chooses positions" }

// Check wants a finite temperature above 0.
func (m MaskGIT) Check() error { return positive("alpha", m.Alpha) }
