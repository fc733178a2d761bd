package samplers

// MaskGITRedraw is the confidence sampler of Halton-MaskGIT (Besnier et al. 2025,
// Sampler/confidence_sampler.py): MaskGIT's choice with a temperature that falls from Noise in the
// first step to 0 in the last, and a new draw of every open token in each step, for which its
// network was trained. Its schedule is late-arccos, its guidance schedule ramp.
type MaskGITRedraw struct {
	Noise  float64 `param:"noise 1e-6..1e6 =4.5" help:"Gumbel temperature of the choice in the first step"`
	Tokens string  `param:"tokens drawn|likeliest" help:"drawn, or likeliest for no noise at all"`
}

// Remasks marks that MaskGITRedraw changes open positions.
func (MaskGITRedraw) Remasks() {}

// Needs a token at every position, masked or open.
func (m MaskGITRedraw) Needs(int, int) Need {
	if m.Tokens == likeliest {
		return Need{Top: true, OpenTop: true}
	}
	return Need{Draw: true, OpenDraw: true}
}

// Choose opens the schedule's number of positions and replaces the open tokens.
func (m MaskGITRedraw) Choose(v *View) (Opening, error) {
	o, err := AMUSEd(WithDefaults(m)).Choose(v)
	redrawn := v.OpenToken
	if m.Tokens == likeliest {
		redrawn = v.OpenArg
	}
	o.Replace = v.Open
	o.Replacement = append(v.Tokens32(len(redrawn))[:0], redrawn...)
	return o, err
}
