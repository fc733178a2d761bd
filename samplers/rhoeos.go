package samplers

import (
	"math"
	"slices"
)

// RhoEOS finds the length of a text while it opens (rho-EOS, arXiv 2601.22527; LLaDA_rho_EOS.py of
// the authors). It opens as Daedal does. Then the density of the end decides: below Low masks are
// appended, above High positions are cut off the end, Unit of them times 1, 2, 4 or 8 for each
// begun tenth that it is away (Growth exp). After Adjusts passes, or once the request's length was
// reached, the length stays. A run without an end token keeps the request's length.
type RhoEOS struct {
	Begin   int     `param:"start 1..1048576 =64" help:"masks that the text begins with"`
	Sure    float64 `param:"sure 1e-9..1 =0.9" help:"probability above which a token opens"`
	Low     float64 `param:"low 1e-9..1 =0.4" help:"density of the end below which the text grows"`
	High    float64 `param:"high 1e-9..1 =0.6" help:"density of the end above which it shrinks"`
	Unit    int     `param:"unit 1..1024 =8" help:"positions by which it grows or shrinks at least"`
	Growth  string  `param:"growth exp|linear|const" help:"how the change depends on how far the density is away"`
	Adjusts int     `param:"adjusts 1..1048576 =64" help:"passes after which the length stays"`
	Block   int     `param:"block 1..1048576 =32" help:"positions of the window that opens"`
	// Density is Daedal's confidence in the end, as the authors' program has it, or the share of
	// masks whose most probable token is the end
	Density string `param:"density confidence|count" help:"the program's confidence in the end, or the paper's count"`
	Check   int    `param:"check 1..1048576 =32" help:"positions by which the confidence in the end is measured"`
	// Cut any is the authors' program, which may take back what a stream has shown
	Cut string `param:"cut unused|any" help:"what may be cut off: masks and end tokens, or the text too"`
	ownPace
}

// NewState returns a state before the first pass.
func (RhoEOS) NewState(length int) any { return &lengthState{longest: length} }

// Start implements Resizer.
func (r RhoEOS) Start() int { return WithDefaults(r).Begin }

// CutsText implements TextCutter.
func (r RhoEOS) CutsText() bool { return r.Cut == "any" }

// Needs the most probable tokens everywhere.
func (RhoEOS) Needs(int, int) Need { return Need{Top: true, OpenTop: true} }

// Choose opens positions and changes the length.
func (r RhoEOS) Choose(v *View) (Opening, error) {
	r = WithDefaults(r)
	s := v.State.(*lengthState)
	s.beginPass(v)
	s.lengthFound = s.lengthFound || len(v.Tokens) >= s.longest || s.passes > r.Adjusts
	o := s.openWindow(v, r.Block, r.Sure)
	s.slideWindow(v, o.Positions, r.Block)
	if s.lengthFound || len(v.EndTokens) == 0 {
		return o, nil
	}

	change := r.lengthChange(r.endDensity(v))
	switch {
	case change > 0:
		n := min(change, s.longest-len(v.Tokens))
		o.Stretch = &Stretch{Append: slices.Repeat([]int32{v.Mask}, n)}
	case change < 0:
		spare := len(v.Tokens) - s.origin
		if r.Cut != "any" {
			spare = v.unusedAtEnd(o, s.origin)
		}
		n := min(-change, spare)
		o.Stretch = &Stretch{Cut: n}
		s.windowStart = min(s.windowStart, len(v.Tokens)-n)
	}
	return o, nil
}

// endDensity returns the density of the end. r has its defaults filled in, here and below.
func (r RhoEOS) endDensity(v *View) float64 {
	if r.Density != "count" {
		return v.endConfidence(r.Check)
	}
	n := 0
	for _, token := range v.Arg {
		if slices.Contains(v.EndTokens, token) {
			n++
		}
	}
	return float64(n) / float64(max(len(v.Masked), 1))
}

// lengthChange returns the positions to append, or to cut off if below 0.
func (r RhoEOS) lengthChange(density float64) int {
	var gap float64
	sign := 1
	switch {
	case density > r.High:
		gap = density - r.High
		sign = -1
	case density < r.Low:
		gap = r.Low - density
	default:
		return 0
	}

	tenths := max(1, math.Ceil((gap+1e-12)/0.1))
	factor := math.Pow(2, tenths-1)
	switch r.Growth {
	case "const":
		factor = 1
	case "linear":
		factor = tenths
	}
	return sign * r.Unit * int(min(factor, 8))
}

// unusedAtEnd returns the number of positions at the end, from `first` on, that are masks or end
// tokens after an opening.
func (v *View) unusedAtEnd(o Opening, first int) int {
	for p := len(v.Tokens) - 1; p >= first; p-- {
		token := v.Tokens[p]
		if j := slices.Index(o.Positions, p); j >= 0 {
			token = o.Tokens[j]
		}
		if token != v.Mask && !slices.Contains(v.EndTokens, token) {
			return len(v.Tokens) - 1 - p
		}
	}
	return len(v.Tokens) - first
}
