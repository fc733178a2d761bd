package generate

import (
	"fmt"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Complete returns the recipe with all defaults filled in for a model and a number of masked
// positions, or a one-line error if it cannot run.
func (r Recipe) Complete(d model.Denoiser, masked int) (Recipe, error) {
	hasSteps := r.Steps != 0
	r = r.WithDefaults(d.Spec())
	if err := samplers.Check(r.Sampler); err != nil {
		return r, &param.Error{Name: "sampler", Err: err}
	}
	if err := r.check(d); err != nil {
		return r, fmt.Errorf("generate: %w", err)
	}
	if !hasSteps {
		r.Steps = r.defaultSteps(masked)
	}
	if _, err := r.MaxSteps(masked); err != nil {
		return r, fmt.Errorf("generate: %w", err)
	}
	return r, nil
}

// check returns an error for what cannot run with any number of positions; it does not check the
// sampler.
func (r Recipe) check(d model.Denoiser) error {
	if err := r.checkRanges(); err != nil {
		return err
	}
	for _, p := range r.inactiveParams() {
		if r.Get(p.name) != "" {
			return r.refuseParam(p.name, p.want, param.NoEffect)
		}
	}
	if err := ParamOf("guidance-schedule").CheckWord(r.Guidance.Schedule); err != nil {
		return err
	}
	if err := r.Filter.Check(d.Spec().Outcomes); err != nil {
		return err
	}
	if err := r.checkReuse(d); err != nil {
		return err
	}
	if err := r.checkLength(d); err != nil {
		return err
	}
	if err := r.checkWindow(d); err != nil {
		return err
	}
	if err := r.checkDrafts(); err != nil {
		return err
	}
	return r.checkCache(d)
}

// checkRanges returns an error for a number out of its parameter's range.
func (r Recipe) checkRanges() error {
	for _, c := range []struct {
		name  string
		value float64
	}{
		{"steps", float64(r.Steps)},
		{"cache", float64(r.Cache)},
		{"refresh", float64(r.Refresh)},
		{"guidance", r.Guidance.Scale},
		{"guidance-share", r.Guidance.Share},
		{"end-penalty", r.EndPenalty},
		{"window", float64(r.Window)},
		{"window-sigma", r.WindowSigma},
	} {
		if err := ParamOf(c.name).Check(c.value); err != nil {
			return err
		}
	}
	if int(r.Reuse) >= len(reuseNames) {
		return &param.Error{Name: "reuse", Found: fmt.Sprint(uint8(r.Reuse)),
			Want: fmt.Sprintf("0 to %d", len(reuseNames)-1)}
	}
	return nil
}

// refuseParam refuses the value that the recipe has for a parameter.
func (r Recipe) refuseParam(name, want string, reason param.Reason) error {
	return &param.Error{Name: name, Found: r.Get(name), Want: want, Reason: reason}
}

// refuseFeature refuses what a parameter asks for: "no WHAT with this CAUSE", where cause is the
// sampler or the model and says why.
func refuseFeature(name string, reason param.Reason, what, cause string) error {
	return param.Refuse(name, reason, "no %s with this %s", what, cause)
}

// inactiveParam is a parameter that acts only together with another one which the recipe lacks;
// want is for its refusal.
type inactiveParam struct{ name, want string }

// inactiveParams returns the parameters that have no effect because r lacks what they act with.
func (r *Recipe) inactiveParams() (list []inactiveParam) {
	if r.Reuse != Blocks && r.Reuse != Causal {
		list = append(list, inactiveParam{"block-size", "0 without reuse blocks or causal"})
	}
	if r.Reuse != Delayed && r.Reuse != Finished && r.Reuse != BlockDelayed {
		list = append(list, inactiveParam{"refresh", "0 without reuse dkv, block-dkv or finished"})
	}
	if r.Window == 0 {
		list = append(list, inactiveParam{"window-sigma", "0 without a window"})
	}
	if r.changesOpenTokens() {
		list = append(list, inactiveParam{"end-at",
			"settled with " + samplers.Text(r.Sampler) + ": it may take an end back"})
	}
	if r.Guidance.Scale == 0 {
		list = append(list, inactiveParam{"guidance-schedule", "none without guidance"},
			inactiveParam{"guidance-share", "0 without guidance"})
	}
	return list
}

// changesOpenTokens reports whether the sampler masks, replaces or cuts off what is open.
func (r *Recipe) changesOpenTokens() bool {
	edits := r.Reuse == Blocks && samplers.Is[samplers.Editor](r.Sampler)
	return edits || samplers.Is[samplers.Remasker](r.Sampler) ||
		samplers.Is[samplers.Judge](r.Sampler) || samplers.Is[samplers.Resizer](r.Sampler)
}

// checkCache returns an error for intermediate stages with a sampler or a model that has none.
func (r Recipe) checkCache(d model.Denoiser) error {
	if r.Cache == 0 {
		return nil
	}
	if why := samplers.CacheRefusal(r.Sampler); why != "" {
		return refuseFeature("cache", param.NoEffect, "cache", "sampler: "+why)
	}
	if _, refines := d.(model.Refiner); !refines {
		return refuseFeature("cache", param.Unsupported, "cache", "model: it has no partial passes")
	}
	return nil
}

// checkReuse returns an error for a kind of reuse that the model or the sampler does not allow.
func (r Recipe) checkReuse(d model.Denoiser) error {
	if r.Reuse == NoReuse {
		return nil
	}
	what := r.Reuse.String() + " reuse"
	if _, refines := d.(model.Refiner); !refines && r.Reuse != Causal {
		return refuseFeature("reuse", param.Unsupported, what, "model: it has no partial passes")
	}
	if samplers.Is[samplers.Remasker](r.Sampler) || samplers.Is[samplers.Judge](r.Sampler) {
		return refuseFeature("reuse", param.NoEffect, what,
			"sampler: it masks positions again, so no key or value stays")
	}

	switch r.Reuse {
	case Blocks:
		return r.checkBlocks(d)
	case Causal:
		return r.checkCausal(d)
	case Delayed, Finished:
		return nil
	}
	// The others make a full pass where a block begins.
	if !samplers.Is[samplers.Blocker](r.Sampler) {
		return refuseFeature("reuse", param.NoEffect, what,
			"sampler: it has no blocks, such as those of semi-ar")
	}
	return nil
}

// checkLength returns an error for reuse with a sampler that changes a sequence's length: keys and
// values belong to positions, which move then.
func (r Recipe) checkLength(d model.Denoiser) error {
	if r.Reuse == NoReuse {
		return nil
	}
	want := "none with " + samplers.Text(r.Sampler)
	if samplers.Is[samplers.Grower](r.Sampler) && d.Spec().Growth != nil {
		return r.refuseParam("reuse", want+": positions move", param.NoEffect)
	}
	if samplers.Is[samplers.Resizer](r.Sampler) {
		return r.refuseParam("reuse", want+": the length changes", param.NoEffect)
	}
	return nil
}

// checkDrafts returns an error for a sampler that drafts or opens several blocks at once, where
// that and other parameters do not go together.
func (r Recipe) checkDrafts() error {
	if samplers.Is[samplers.Proposer](r.Sampler) {
		if r.Window != 0 {
			return refuseFeature("window", param.NoEffect, "window", "sampler: it drafts")
		}
		if r.Reuse != NoReuse {
			return refuseFeature("reuse", param.NoEffect, r.Reuse.String()+" reuse",
				"sampler: it drafts, and drafts have no keys and values of their own")
		}
	}
	pipelined := samplers.Is[samplers.Pipeliner](r.Sampler)
	if r.Reuse == Finished && !pipelined {
		return refuseFeature("reuse", param.NoEffect, "finished reuse",
			"sampler: it does not open several blocks at once, as multi-block does")
	}
	if pipelined && (r.Reuse == Blocks || r.Reuse == Causal) {
		return r.refuseParam("reuse", "none, dkv or finished with "+samplers.Text(r.Sampler),
			param.NoEffect)
	}
	return nil
}

// checkGuidance returns an error if there is guidance but no condition. A model that takes no
// condition is guided by the tokens known from the start (Nie et al. 2025, LLaDA, generate.py).
func (r Recipe) checkGuidance(spec model.Spec, tokens []int32) error {
	switch {
	case r.Guidance.Share != 0 && spec.IsConditional():
		return r.refuseParam("guidance-share", "0: this model is guided by its condition",
			param.NoEffect)
	case r.Guidance.Share != 0 && r.Reuse != NoReuse:
		return r.refuseParam("guidance-share",
			"0 with reuse "+r.Reuse.String()+": each step leaves out other tokens", param.Unsupported)
	case r.Guidance.Scale == 0 || spec.IsConditional():
		return nil
	}
	// A begin token alone, which every text has, says nothing to be guided by.
	knownCount := len(tokens) - spec.CountMasked(tokens)
	if knownCount > spec.SpecialCount() {
		return nil
	}
	return r.refuseParam("guidance", "0: this model takes no condition, and no token is known",
		param.Unsupported)
}

// defaultSteps returns the default steps for a number of masked positions: at most one for each
// position, at least one for each block.
func (r Recipe) defaultSteps(masked int) int {
	blocks, maxSteps := r.blockBounds(masked)
	return max(1, min(max(r.Steps, blocks), maxSteps))
}

// usefulSteps returns the most steps that can open a position each, of a number of masked ones, and
// whether steps beyond these do nothing. They do something where steps may open nothing, where they
// count for one block, and where a sampler finds their number or masks positions again.
func (r Recipe) usefulSteps(masked int) (maxSteps int, bounded bool) {
	_, maxSteps = r.blockBounds(masked)
	_, idles := r.Schedule.(samplers.Idler)
	switch {
	case masked == 0, idles, r.Reuse == Blocks, r.Reuse == Causal:
		return maxSteps, false
	case samplers.Is[samplers.Planner](r.Sampler), samplers.Is[samplers.Remasker](r.Sampler):
		return maxSteps, false
	}
	return maxSteps, true
}

// MaxSteps returns the most steps that a complete recipe takes for a number of masked positions. It
// returns an error if the recipe has more steps than can do something, or fewer than it has blocks.
func (r Recipe) MaxSteps(masked int) (steps int, err error) {
	if masked == 0 {
		return 0, nil
	}
	if r.Reuse == Blocks || r.Reuse == Causal { // steps are for each block
		return r.Steps, nil
	}
	if planner, ok := samplers.As[samplers.Planner](r.Sampler); ok {
		steps, err = planner.Plan(r.Steps, masked)
		if err != nil {
			return steps, &param.Error{Name: "steps", Err: err}
		}
		return steps, nil
	}

	if maxSteps, bounded := r.usefulSteps(masked); bounded && r.Steps > maxSteps {
		return r.Steps, r.refuseParam("steps",
			fmt.Sprintf("1 to %d: each opens one position at least", maxSteps), param.OutOfRange)
	}
	if blocks, _ := r.blockBounds(masked); r.Steps < blocks {
		return r.Steps, r.refuseParam("steps",
			fmt.Sprintf("%d or more: one a block at least", blocks), param.OutOfRange)
	}
	return r.Steps, nil
}
