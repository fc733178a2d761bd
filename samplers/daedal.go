package samplers

import (
	"cmp"
	"slices"

	"unmask/param"
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
	Begin  int     // 0 means 64
	Enough float64 // 0 means 0.5
	Full   float64 // 0 means 0.9
	High   float64 // 0 means 0.9
	Low    float64 // 0 means 0.1
	Grow   int     // 0 means 8
	Block  int     // 0 means 32
	Check  int     // 0 means 32
	ownPace
}

var daedalRule = Rule[Daedal]{
	Name:  "daedal",
	Line:  "a text that finds its length: it grows until its end is in sight, and where it is unsure",
	Paper: "Li et al. 2025, DAEDAL",
	Params: []Param[Daedal]{
		Whole(func(d *Daedal) *int { return &d.Begin }, beginMasks),
		Number(func(d *Daedal) *float64 { return &d.Enough },
			param.Param{Name: "enough", Min: 1e-9, Max: 1, Default: "0.5",
				Help: "confidence in the end at which the text begins to open"}),
		Number(func(d *Daedal) *float64 { return &d.Full },
			param.Param{Name: "full", Min: 1e-9, Max: 1, Default: "0.9",
				Help: "confidence in the end from which the text grows no more"}),
		Number(func(d *Daedal) *float64 { return &d.High },
			param.Param{Name: "high", Min: 1e-9, Max: 1, Default: "0.9",
				Help: "probability above which a token opens"}),
		Number(func(d *Daedal) *float64 { return &d.Low },
			param.Param{Name: "low", Min: 1e-9, Max: 1, Default: "0.1",
				Help: "probability below which a mask becomes several"}),
		Whole(func(d *Daedal) *int { return &d.Grow },
			param.Param{Name: "grow", Min: 1, Max: 1 << 10, Default: "8",
				Help: "masks by which the text grows at once"}),
		Whole(func(d *Daedal) *int { return &d.Block }, slidingWindow),
		Whole(func(d *Daedal) *int { return &d.Check }, endCheck),
	},
}

// Parameters of rules that find a text's length.
var (
	beginMasks = param.Param{Name: "start", Min: 1, Max: 1 << 20, Default: "64",
		Help: "masks that the text begins with"}
	slidingWindow = param.Param{Name: "block", Min: 1, Max: 1 << 20, Default: "32",
		Help: "positions of the window that opens"}
	endCheck = param.Param{Name: "check", Min: 1, Max: 1 << 20, Default: "32",
		Help: "positions by which the confidence in the end is measured"}
)

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
	if !s.sized && len(v.Ends) > 0 {
		if sure < cmp.Or(d.Enough, 0.5) && room > 0 {
			return grown(v.Mask, min(grow, room)), nil
		}
		s.sized = true
		return grown(v.Ends[0], min(check/2, room)), nil
	}
	block := cmp.Or(d.Block, 32)
	o := s.open(v, block, cmp.Or(d.High, 0.9))
	if least := s.least(v, o.Positions, block, cmp.Or(d.Low, 0.1)); least >= 0 && room > 0 &&
		sure < cmp.Or(d.Full, 0.9) && len(v.Ends) > 0 {
		o.Stretch = &Stretch{At: least, Into: grow, Cut: max(0, grow-1-room)}
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
		if slices.Contains(v.Ends, token) {
			found, sum = found+1, sum+p
		}
	}
	return sum / float64(check)
}

// Tempered refuses every temperature but 0.
func (d Daedal) Tempered(temperature float64) (any, float64, error) {
	return only0(d, "daedal", temperature)
}

// Uncached returns why there can be no second stage.
func (Daedal) Uncached() string { return "daedal changes the length after each step" }
