package samplers

import "slices"

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
	// longest is the number of positions that the sequence may have.
	longest int

	// origin is the first mask's position, and windowStart that of the window.
	origin      int
	windowStart int

	// passes counts those that have begun, this one included.
	passes int

	// lengthFound says that the first length is found.
	lengthFound bool
}

// NewState returns a state before the first pass.
func (Daedal) NewState(length int) any { return &lengthState{longest: length} }

// Start implements Resizer.
func (d Daedal) Start() int { return WithDefaults(d).Begin }

// Needs the most probable tokens everywhere.
func (Daedal) Needs(int, int) Need { return Need{Top: true, OpenTop: true} }

// Choose opens positions, or lets the text grow.
func (d Daedal) Choose(v *View) (Opening, error) {
	d = WithDefaults(d)
	s := v.State.(*lengthState)
	s.beginPass(v)
	room := s.longest - len(v.Tokens)
	confidence := v.endConfidence(d.Check)

	if !s.lengthFound && len(v.EndTokens) > 0 {
		if confidence < d.Enough && room > 0 {
			return appendOnly(v.Mask, min(d.Grow, room)), nil
		}
		s.lengthFound = true
		return appendOnly(v.EndTokens[0], min(d.Check/2, room)), nil
	}

	o := s.openWindow(v, d.Block, d.High)
	unsure := s.leastProbable(v, o.Positions, d.Block, d.Low)
	if unsure >= 0 && room > 0 && confidence < d.Full && len(v.EndTokens) > 0 {
		o.Stretch = &Stretch{Position: unsure, Masks: d.Grow, Cut: max(0, d.Grow-1-room)}
		return o, nil
	}
	s.slideWindow(v, o.Positions, d.Block)
	return o, nil
}

// appendOnly opens nothing and appends n tokens.
func appendOnly(token int32, n int) Opening {
	return Opening{Stretch: &Stretch{Append: slices.Repeat([]int32{token}, n)}}
}

// beginPass counts a pass. Before the first one it sets the window to the first mask.
func (s *lengthState) beginPass(v *View) {
	s.passes++
	if s.passes == 1 && len(v.Masked) > 0 {
		s.origin = v.Masked[0]
		s.windowStart = v.Masked[0]
	}
}

// window returns the indexes first..end-1 in Masked of the window's positions.
func (s *lengthState) window(v *View, block int) (first, end int) {
	first, _ = slices.BinarySearch(v.Masked, s.windowStart)
	end, _ = slices.BinarySearch(v.Masked, s.windowStart+block)
	return first, end
}

// openWindow opens what is more probable than high in the window, at least the best.
func (s *lengthState) openWindow(v *View, block int, high float64) Opening {
	first, end := s.window(v, block)
	ranked := v.topOf(v.Masked[first:end], end-first, func(i int) float64 { return v.P1[first+i] })
	confident := v.firstWhile(ranked, 1, func(i int) bool { return v.P1[i] > high })
	return v.candidates(0).open(confident)
}

// leastProbable returns the least probable mask of the window that does not open now and is below
// low, -1 if there is none.
func (s *lengthState) leastProbable(v *View, opened []int, block int, low float64) int {
	first, end := s.window(v, block)
	position := -1
	for i := first; i < end; i++ {
		if v.P1[i] < low && !slices.Contains(opened, v.Masked[i]) {
			position = v.Masked[i]
			low = v.P1[i]
		}
	}
	return position
}

// slideWindow moves the window over blocks that have no mask left.
func (s *lengthState) slideWindow(v *View, opened []int, block int) {
	for s.windowStart < len(v.Tokens) {
		first, end := s.window(v, block)
		for _, p := range v.Masked[first:end] {
			if !slices.Contains(opened, p) {
				return
			}
		}
		s.windowStart = min(s.windowStart+block, len(v.Tokens))
	}
}

// endConfidence returns the sum of the probabilities of an end token at the last `check` positions
// at which it is the most probable token, over check. Masked and open positions are read together,
// from the last one down.
func (v *View) endConfidence(check int) float64 {
	masked := len(v.Masked) - 1
	open := len(v.Open) - 1
	endCount := 0
	sum := 0.0
	for endCount < check && (masked >= 0 || open >= 0) {
		var token int32
		var p float64
		if open < 0 || masked >= 0 && v.Masked[masked] > v.Open[open] {
			token = v.Arg[masked]
			p = v.P1[masked]
			masked--
		} else {
			token = v.OpenArg[open]
			p = v.OpenP1[open]
			open--
		}
		if slices.Contains(v.EndTokens, token) {
			endCount++
			sum += p
		}
	}
	return sum / float64(check)
}
