package samplers

// AMUSEd is the loop of aMUSEd (Patil et al. 2024; diffusers, schedulers/scheduling_amused.py):
// MaskGIT's with a temperature that falls from Noise in the first step to 0 in the last.
type AMUSEd struct {
	Noise  float64 `param:"noise 1e-6..1e6 =2" help:"Gumbel temperature of the choice in the first step"`
	Tokens string  `param:"tokens drawn|likeliest" help:"drawn, or likeliest for no noise at all"`
}

// likeliest is the value of Tokens that means no noise.
const likeliest = "likeliest"

// Needs a token at every masked position.
func (a AMUSEd) Needs(int, int) Need {
	if a.Tokens == likeliest {
		return Need{Top: true}
	}
	return Need{Draw: true}
}

// Choose keeps the number of tokens that the schedule opens.
func (a AMUSEd) Choose(v *View) (Opening, error) {
	if a.Tokens == likeliest {
		c := v.candidates(0)
		return c.open(v.Top(v.Quota, c.score)), nil
	}

	noise := WithDefaults(a).Noise
	if v.Steps > 1 {
		noise *= 1 - float64(v.Step-1)/float64(v.Steps-1)
	}
	score := func(i int) float64 { return v.LogP[i] + noise*v.Gumbel(i) }
	o := Opening{Positions: v.Top(v.Quota, score)}
	v.setDrawnTokens(&o)
	return o, nil
}
