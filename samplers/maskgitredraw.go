package samplers

import (
	"cmp"
	"unmask/param"
)

// MaskGITRedraw is the confidence sampler of Halton-MaskGIT (Besnier et al. 2025,
// Sampler/confidence_sampler.py): MaskGIT's choice with a temperature that falls from Noise in the
// first step to 0 in the last, and a new draw of every open token in each step, for which its
// network was trained. Its schedule is late-arccos, its guidance schedule ramp.
type MaskGITRedraw struct {
	Noise  float64 // Gumbel temperature of the choice in the first step; 0 means 4.5
	Tokens string  // "drawn", or "likeliest" for tokens and choice without noise; "" means drawn
}

var maskgitRedrawRule = Rule[MaskGITRedraw]{
	Name: "maskgit-redraw", Line: "maskgit that draws open tokens anew in each step",
	Paper: "Besnier et al. 2025, Halton Scheduler",
	Params: []Param[MaskGITRedraw]{
		Number(func(m *MaskGITRedraw) *float64 { return &m.Noise },
			param.Param{Name: "noise", Min: 1e-6, Max: 1e6, Default: "4.5",
				Help: "Gumbel temperature of the choice in the first step"}),
		Word(func(m *MaskGITRedraw) *string { return &m.Tokens }, tokensParam),
	},
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
	o, err := AMUSEd{Noise: cmp.Or(m.Noise, 4.5), Tokens: m.Tokens}.Choose(v)
	anew := v.OpenToken
	if m.Tokens == likeliest {
		anew = v.OpenArg
	}
	o.Replace, o.Replacement = v.Open, append(v.Tokens32(len(anew))[:0], anew...)
	return o, err
}

// Uncached returns why there can be no second stage.
func (MaskGITRedraw) Uncached() string {
	return "maskgit-redraw draws tokens before it chooses positions"
}

// lateArccos is max(n, int(L*(1-acos((n-1)/(N-1))/(pi/2)))): its first step opens one position, and
// its last step ends where arccos ends.
type lateArccos struct{}

func (lateArccos) String() string { return "late-arccos" }

func (lateArccos) At(at float64, steps, length int) int {
	return max(arccos{}.At(max(at-1, 0), max(steps-1, 1), length), int(at))
}
