package generate

import (
	"math"
	"slices"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// A suffix window leaves most masks behind the current block out of all passes: a few tell the
// model how far the text goes. A pass computes what is before the block's end and, at their own
// positions, what is known behind it and some of the masks there: the next Window ones and the last
// one (Streaming-dLLM, arXiv 2601.17917, deterministic_window_tail_sampler of the authors' program)
// or, with WindowSigma, of the next Window ones fewer and fewer (Chen et al. 2025, "DPad", arXiv
// 2508.14148). DPad tosses a coin for each; here the same density is thinned without one, so that
// all blocks keep the same distances. Keys and values stay while the kept positions do.

// thinScale is DPad's factor of the Gaussian density.
const thinScale = 2

// keptDistances returns which distances from a block's end a window keeps, [Window], and whether
// the last position is kept.
func (r *Recipe) keptDistances() (near []bool, last bool) {
	if r.WindowSigma == 0 {
		return slices.Repeat([]bool{true}, r.Window), true
	}
	near = make([]bool, r.Window)
	sum := 0.0 // of the density so far; a distance is kept where this passes a whole number
	wholePassed := 0.0
	for d := range near {
		x := r.WindowSigma * float64(d) / float64(max(r.Window-1, 1))
		sum += min(thinScale*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi), 1)
		if n := math.Floor(sum + 1e-9); n > wholePassed { // 1e-9 makes up for rounding in the sum
			near[d] = true
			wholePassed = n
		}
	}
	return near, false
}

// setVisible sets the positions that the step's passes see, where a block ends at `end`.
func (w *wholeLoop) setVisible(end int) {
	w.passVisible = w.passVisible[:0]
	for p, t := range w.Tokens {
		distance := p - end
		visible := distance < 0 || t != w.mask ||
			distance < len(w.windowDistances) && w.windowDistances[distance] ||
			w.windowHasLast && p == len(w.Tokens)-1
		if visible {
			w.passVisible = append(w.passVisible, int32(p))
		}
	}
}

// checkWindow returns an error for a recipe that cannot leave positions out.
func (r Recipe) checkWindow(d model.Denoiser) error {
	if r.Window == 0 {
		return nil
	}
	spec := d.Spec()
	if !spec.Sparse || spec.Block != 0 {
		return refuseFeature("window", param.Unsupported, "window",
			"model: its passes compute all that a position sees")
	}
	if !slices.Contains([]Reuse{NoReuse, Prefix, Dual, BlockDelayed}, r.Reuse) {
		return r.refuseParam("window", "0 with reuse "+r.Reuse.String(), param.NoEffect)
	}
	if !samplers.Is[samplers.Blocker](r.Sampler) {
		return refuseFeature("window", param.NoEffect, "window",
			"sampler: it has no blocks, such as those of semi-ar")
	}
	if samplers.Is[samplers.Lookahead](r.Sampler) {
		return refuseFeature("window", param.NoEffect, "window", "sampler: it looks ahead")
	}
	if samplers.Is[samplers.Judge](r.Sampler) {
		return refuseFeature("window", param.NoEffect, "window",
			"sampler: it masks positions again")
	}
	return nil
}
