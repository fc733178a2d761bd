package samplers

import (
	"cmp"
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
	// Daedal's confidence in the end, as the authors' program has it, or the share of masks whose most
	// probable token is the end
	Density string `param:"density confidence|count" help:"the program's confidence in the end, or the paper's count"`
	Check   int    `param:"check 1..1048576 =32" help:"positions by which the confidence in the end is measured"`
	// any is the authors' program, which may take back what a stream has shown
	Cut string `param:"cut unused|any" help:"what may be cut off: masks and end tokens, or the text too"`
	ownPace
}

// NewState returns a state before the first pass.
func (RhoEOS) NewState(length int) any { return &lengthState{longest: length} }

// Start implements Resizer.
func (r RhoEOS) Start() int { return cmp.Or(r.Begin, 64) }

// Needs the most probable tokens everywhere.
func (RhoEOS) Needs(int, int) Need { return Need{Top: true, OpenTop: true} }

// Choose opens positions and changes the length.
func (r RhoEOS) Choose(v *View) (Opening, error) {
	s, block := v.State.(*lengthState), cmp.Or(r.Block, 32)
	s.begin(v)
	s.sized = s.sized || len(v.Tokens) >= s.longest || s.passes > cmp.Or(r.Adjusts, 64)
	o := s.open(v, block, cmp.Or(r.Sure, 0.9))
	s.slide(v, o.Positions, block)
	if s.sized || len(v.EndTokens) == 0 {
		return o, nil
	}
	switch by := r.resize(r.density(v)); {
	case by > 0:
		by = min(by, s.longest-len(v.Tokens))
		o.Stretch = &Stretch{Append: slices.Repeat([]int32{v.Mask}, by)}
	case by < 0:
		spare := len(v.Tokens) - s.origin
		if r.Cut != "any" {
			spare = v.unused(o, s.origin)
		}
		by = min(-by, spare)
		o.Stretch = &Stretch{Cut: by}
		s.at = min(s.at, len(v.Tokens)-by)
	}
	return o, nil
}

// density returns the density of the end.
func (r RhoEOS) density(v *View) float64 {
	if r.Density != "count" {
		return v.endConfidence(cmp.Or(r.Check, 32))
	}
	n := 0
	for _, token := range v.Arg {
		if slices.Contains(v.EndTokens, token) {
			n++
		}
	}
	return float64(n) / float64(max(len(v.Masked), 1))
}

// resize returns the positions to append, or to cut off if below 0.
func (r RhoEOS) resize(density float64) int {
	low, high, sign := cmp.Or(r.Low, 0.4), cmp.Or(r.High, 0.6), 1
	gap := low - density
	if density > high {
		gap, sign = density-high, -1
	} else if density >= low {
		return 0
	}
	tenths := max(1, math.Ceil((gap+1e-12)/0.1))
	times := cmp.Or(map[string]float64{"const": 1, "linear": tenths}[r.Growth], math.Pow(2, tenths-1))
	return sign * cmp.Or(r.Unit, 8) * int(min(times, 8))
}

// unused returns the number of positions at the end, from `first` on, that are masks or end tokens
// after an opening.
func (v *View) unused(o Opening, first int) int {
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
