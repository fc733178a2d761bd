package generate

import (
	"cmp"
	"fmt"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Fit returns the recipe with all defaults filled in for a model and a number of masked positions,
// or a one-line error if it cannot run.
func (r Recipe) Fit(d model.Denoiser, free int) (Recipe, error) {
	steps := r.Steps
	r = r.For(d.Spec())
	if err := samplers.Check(r.Sampler); err != nil {
		return r, &param.Error{Name: "sampler", Err: err}
	}
	err := r.check(d)
	if err == nil && steps == 0 {
		r.Steps = r.fewer(free)
	}
	if err == nil {
		_, err = r.Bound(free)
	}
	if err != nil {
		return r, fmt.Errorf("generate: %w", err)
	}
	return r, nil
}

// check returns an error for what cannot run with any number of positions; it does not check the
// sampler.
func (r Recipe) check(d model.Denoiser) error {
	for _, c := range []struct {
		name  string
		value int
	}{{"steps", r.Steps}, {"cache", r.Cache}, {"refresh", r.Refresh}} {
		if err := ParamOf(c.name).CheckInt(c.value); err != nil {
			return err
		}
	}
	return cmp.Or(ParamOf("guidance").Check(r.Guidance.Scale),
		ParamOf("end-penalty").Check(r.EndPenalty),
		ParamOf("guidance-schedule").CheckWord(r.Guidance.Schedule),
		r.Filter.Check(d.Spec().Outcomes), r.checkReuse(d), r.checkGrowth(d), r.checkResizer(),
		r.checkWindow(d), r.checkDrafts(), r.checkFinished(), r.checkGuidance(), r.checkCache(d))
}

func (r Recipe) checkCache(d model.Denoiser) error {
	if r.Cache == 0 {
		return nil
	}
	if why := samplers.Uncached(r.Sampler); why != "" {
		return param.Refuse("cache", param.NoEffect, "no cache with this sampler: %s", why)
	}
	if _, ok := d.(model.Refiner); !ok {
		return param.Refuse("cache", param.Unsupported,
			"no cache with this model: it has no partial passes")
	}
	return nil
}

func (r Recipe) checkReuse(d model.Denoiser) error {
	if int(r.Reuse) >= len(reuses) {
		return &param.Error{Name: "reuse", Found: fmt.Sprint(uint8(r.Reuse)),
			Want: fmt.Sprintf("0 to %d", len(reuses)-1)}
	}
	if r.Refresh != 0 && !r.Reuse.refreshes() {
		return &param.Error{Name: "refresh", Found: fmt.Sprint(r.Refresh),
			Want: noRefresh, Reason: param.NoEffect}
	}
	if r.BlockSize != 0 && r.Reuse != Blocks && r.Reuse != Causal {
		return &param.Error{Name: "block-size", Found: fmt.Sprint(r.BlockSize),
			Want: "0 without reuse blocks or causal", Reason: param.NoEffect}
	}
	if r.Reuse == NoReuse {
		return nil
	}
	if _, ok := d.(model.Refiner); !ok && r.Reuse != Causal {
		return param.Refuse("reuse", param.Unsupported,
			"no %s reuse with this model: it has no partial passes", r.Reuse)
	}
	_, remasks := samplers.As[samplers.Remasker](r.Sampler)
	if _, judges := samplers.As[samplers.Judge](r.Sampler); remasks || judges {
		return param.Refuse("reuse", param.NoEffect, "no %s reuse with this sampler: it masks "+
			"positions again, so no key or value stays", r.Reuse)
	}
	if r.Reuse == Blocks {
		return r.checkBlocks(d)
	}
	if r.Reuse == Causal {
		return r.checkCausal(d)
	}
	if _, ok := samplers.As[samplers.Blocker](r.Sampler); !ok && r.Reuse != Delayed &&
		r.Reuse != Finished {
		return param.Refuse("reuse", param.NoEffect, "no %s reuse with this sampler: it has no "+
			"blocks, such as those of semi-ar", r.Reuse)
	}
	return nil
}

func (r Recipe) checkGuidance() error {
	if g := r.Guidance; g.Scale == 0 && g.Schedule != "" {
		return &param.Error{Name: "guidance-schedule", Found: g.Schedule, Want: "none without guidance",
			Reason: param.NoEffect}
	}
	return nil
}

// guides returns an error if there is guidance but no condition. A model that takes no condition is
// guided by the tokens known from the start (Nie et al. 2025, LLaDA, generate.py).
func (r Recipe) guides(spec model.Spec, tokens []int32) error {
	if r.Guidance.Scale == 0 || spec.Conditional() ||
		len(known(tokens, spec.Mask)) > spec.Around() {
		return nil
	}
	return &param.Error{Name: "guidance", Found: param.Format(r.Guidance.Scale),
		Want: "0: this model takes no condition, and no token is known", Reason: param.Unsupported}
}

// fewer returns the default steps for `free` masked positions: at most one for each position, at
// least one for each block.
func (r Recipe) fewer(free int) int {
	n, most := r.blocks(free)
	return max(1, min(max(r.Steps, n), most))
}

// useful returns the most steps that can open a position each, of `free` masked ones, and whether
// more than that do nothing.
func (r Recipe) useful(free int) (most int, bounded bool) {
	_, plans := samplers.As[samplers.Planner](r.Sampler)
	_, remasks := samplers.As[samplers.Remasker](r.Sampler)
	_, idles := r.Schedule.(samplers.Idler)
	_, most = r.blocks(free)
	return most, free > 0 && !plans && !remasks && !idles && r.Reuse != Blocks && r.Reuse != Causal
}

// Bound returns the most steps that a recipe from Fit takes for `free` masked positions.
func (r Recipe) Bound(free int) (steps int, err error) {
	if free == 0 {
		return 0, nil
	}
	if r.Reuse == Blocks || r.Reuse == Causal { // steps are for each block
		return r.Steps, nil
	}
	if planner, ok := samplers.As[samplers.Planner](r.Sampler); ok {
		if steps, err = planner.Plan(r.Steps, free); err != nil {
			err = &param.Error{Name: "steps", Err: err}
		}
		return steps, err
	}
	n, _ := r.blocks(free)
	switch most, bounded := r.useful(free); {
	case bounded && r.Steps > most:
		return 0, &param.Error{Name: "steps", Found: fmt.Sprint(r.Steps),
			Want: fmt.Sprintf("1 to %d: each opens one position at least", most)}
	case r.Steps < n:
		return 0, &param.Error{Name: "steps", Found: fmt.Sprint(r.Steps),
			Want: fmt.Sprintf("%d or more: one a block at least", n)}
	}
	return r.Steps, nil
}
