package samplers

import (
	"cmp"
	"slices"
)

// Daedal finds the length of a text (Li et al. 2025, "Beyond fixed: training-free variable-length
// denoising", DAEDAL, arXiv 2508.00819; generate of the authors' program). It begins with Start
// masks. While the confidence in the end is below Enough, a pass is followed by Grow further masks;
// then Check/2 end tokens are put behind them. Now a window of Block positions opens from left to
// right: all that is more probable than High, at least the best. While the confidence is below
// Full, the least probable mask of the window, if below Low, becomes Grow masks.
//
// The confidence in the end is the mean probability of the end token at the last Check positions at
// which it is the most probable one, with 0 for those that are missing. The text never becomes
// longer than the request, and a run without an end token keeps the request's length.
type Daedal struct {
	Begin  int     `param:"start 1..1048576 =64" help:"masks that the text begins with"`
	Enough float64 `param:"enough 1e-9..1 =0.5" help:"confidence in the end at which the text begins to open"`
	Full   float64 `param:"full 1e-9..1 =0.9" help:"confidence in the end from which the text grows no more"`
	High   float64 `param:"high 1e-9..1 =0.9" help:"probability above which a token opens"`
	Low    float64 `param:"low 1e-9..1 =0.1" help:"probability below which a mask becomes several"`
	Grow   int     `param:"grow 1..1024 =8" help:"masks by which the text grows at once"`
	Block  int     `param:"block 1..1048576 =32" help:"positions of the window that opens"`
	Check  int     `param:"check 1..1048576 =32" help:"positions by which the confidence in the end is measured"`
	ownPace
}

// lengthState is the state of a text that finds its length.
type lengthState struct {
	longest int  // positions that the sequence may have
	origin  int  // the first mask
	at      int  // the window's start
	passes  int  // before this one
	sized   bool // the first length is found
}

// NewState returns a state before the first pass.
func (Daedal) NewState(length int) any { return &lengthState{longest: length} }

// Start implements Resizer.
func (d Daedal) Start() int { return cmp.Or(d.Begin, 64) }

// Needs the most probable tokens everywhere.
func (Daedal) Needs(int, int) Need { return Need{Top: true, OpenTop: true} }

// Choose opens positions, or lets the text grow.
func (d Daedal) Choose(v *View) (Opening, error) {
	s := v.State.(*lengthState)
	s.begin(v)
	check, grow, room := cmp.Or(d.Check, 32), cmp.Or(d.Grow, 8), s.longest-len(v.Tokens)
	sure := v.endConfidence(check)
	if !s.sized && len(v.EndTokens) > 0 {
		if sure < cmp.Or(d.Enough, 0.5) && room > 0 {
			return grown(v.Mask, min(grow, room)), nil
		}
		s.sized = true
		return grown(v.EndTokens[0], min(check/2, room)), nil
	}
	block := cmp.Or(d.Block, 32)
	o := s.open(v, block, cmp.Or(d.High, 0.9))
	if least := s.least(v, o.Positions, block, cmp.Or(d.Low, 0.1)); least >= 0 && room > 0 &&
		sure < cmp.Or(d.Full, 0.9) && len(v.EndTokens) > 0 {
		o.Stretch = &Stretch{Position: least, Masks: grow, Cut: max(0, grow-1-room)}
		return o, nil
	}
	s.slide(v, o.Positions, block)
	return o, nil
}

// grown opens nothing and appends n tokens.
func grown(token int32, n int) Opening {
	return Opening{Stretch: &Stretch{Append: slices.Repeat([]int32{token}, n)}}
}

// begin sets the window's start before the first pass.
func (s *lengthState) begin(v *View) {
	if s.passes++; s.passes == 1 && len(v.Masked) > 0 {
		s.origin, s.at = v.Masked[0], v.Masked[0]
	}
}

// window returns the indexes from..to-1 in Masked of the window's positions.
func (s *lengthState) window(v *View, block int) (from, to int) {
	from, _ = slices.BinarySearch(v.Masked, s.at)
	to, _ = slices.BinarySearch(v.Masked, s.at+block)
	return from, to
}

// open opens what is more probable than high in the window, at least the best.
func (s *lengthState) open(v *View, block int, high float64) Opening {
	from, to := s.window(v, block)
	c := v.candidates(0)
	ranked := v.top(v.Masked[from:to], to-from, func(i int) float64 { return v.P1[from+i] })
	return c.open(v.first(ranked, 1, func(i int) bool { return v.P1[i] > high }))
}

// least returns the least probable mask of the window that does not open now and is below low, -1
// if there is none.
func (s *lengthState) least(v *View, opened []int, block int, low float64) int {
	from, to := s.window(v, block)
	least := -1
	for i := from; i < to; i++ {
		if v.P1[i] < low && !slices.Contains(opened, v.Masked[i]) {
			least, low = v.Masked[i], v.P1[i]
		}
	}
	return least
}

// slide moves the window over blocks that have no mask left.
func (s *lengthState) slide(v *View, opened []int, block int) {
	for s.at < len(v.Tokens) {
		from, to := s.window(v, block)
		for _, p := range v.Masked[from:to] {
			if !slices.Contains(opened, p) {
				return
			}
		}
		s.at = min(s.at+block, len(v.Tokens))
	}
}

// endConfidence returns the sum of the probabilities of an end token at the last `check` positions
// at which it is the most probable token, over check.
func (v *View) endConfidence(check int) float64 {
	i, j, found, sum := len(v.Masked)-1, len(v.Open)-1, 0, 0.0
	for found < check && (i >= 0 || j >= 0) {
		var token int32
		var p float64
		if j < 0 || i >= 0 && v.Masked[i] > v.Open[j] {
			token, p = v.Arg[i], v.P1[i]
			i--
		} else {
			token, p = v.OpenArg[j], v.OpenP1[j]
			j--
		}
		if slices.Contains(v.EndTokens, token) {
			found, sum = found+1, sum+p
		}
	}
	return sum / float64(check)
}
