package generate

import (
	"cmp"
	"fmt"

	"unmask/model"
	"unmask/param"
	"unmask/samplers"
)

// Complete returns the recipe with all defaults filled in for a model and a number of masked
// positions, or a one-line error if it cannot run.
func (r Recipe) Complete(d model.Denoiser, free int) (Recipe, error) {
	steps := r.Steps
	r = r.WithDefaults(d.Spec())
	if err := samplers.Check(r.Sampler); err != nil {
		return r, &param.Error{Name: "sampler", Err: err}
	}
	err := r.check(d)
	if err == nil && steps == 0 {
		r.Steps = r.fewer(free)
	}
	if err == nil {
		_, err = r.MaxSteps(free)
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
		value float64
	}{{"steps", float64(r.Steps)}, {"cache", float64(r.Cache)}, {"refresh", float64(r.Refresh)},
		{"guidance", r.Guidance.Scale}, {"end-penalty", r.EndPenalty}, {"window", float64(r.Window)},
		{"window-sigma", r.WindowSigma}} {
		if err := ParamOf(c.name).Check(c.value); err != nil {
			return err
		}
	}
	if int(r.Reuse) >= len(reuses) {
		return &param.Error{Name: "reuse", Found: fmt.Sprint(uint8(r.Reuse)),
			Want: fmt.Sprintf("0 to %d", len(reuses)-1)}
	}
	for _, p := range r.idle() {
		if err := r.unless(r.Get(p.name) == "", p.name, p.want, param.NoEffect); err != nil {
			return err
		}
	}
	return cmp.Or(ParamOf("guidance-schedule").CheckWord(r.Guidance.Schedule),
		r.Filter.Check(d.Spec().Outcomes), r.checkReuse(d), r.checkLength(d), r.checkWindow(d),
		r.checkDrafts(), r.checkCache(d))
}

// unless returns nil if ok, and otherwise refuses what the recipe has for a parameter.
func (r Recipe) unless(ok bool, name, want string, reason param.Reason) error {
	return param.RefuseUnless(ok, name, r.Get(name), want, reason)
}

// without returns nil if ok, and otherwise refuses what a parameter asks for: "no WHAT with WHY".
func without(ok bool, name string, reason param.Reason, what, why string) error {
	if ok {
		return nil
	}
	return param.Refuse(name, reason, "no %s with this %s", what, why)
}

// dependent is a parameter that acts only together with others.
type dependent struct{ name, want string }

// idle returns the parameters that have no effect because r lacks what they act with.
func (r *Recipe) idle() (list []dependent) {
	for _, p := range []struct {
		acts bool
		dependent
	}{
		{r.Reuse == Blocks || r.Reuse == Causal, dependent{"block-size",
			"0 without reuse blocks or causal"}},
		{r.Reuse == Delayed || r.Reuse == Finished || r.Reuse == BlockDelayed, dependent{"refresh",
			"0 without reuse dkv, block-dkv or finished"}},
		{r.Window != 0, dependent{"window-sigma", "0 without a window"}},
		{r.Guidance.Scale != 0, dependent{"guidance-schedule", "none without guidance"}},
	} {
		if !p.acts {
			list = append(list, p.dependent)
		}
	}
	return list
}

func (r Recipe) checkCache(d model.Denoiser) error {
	_, refines := d.(model.Refiner)
	why := samplers.CacheRefusal(r.Sampler)
	return cmp.Or(
		without(r.Cache == 0 || why == "", "cache", param.NoEffect, "cache", "sampler: "+why),
		without(r.Cache == 0 || refines, "cache", param.Unsupported, "cache",
			"model: it has no partial passes"))
}

func (r Recipe) checkReuse(d model.Denoiser) error {
	if r.Reuse == NoReuse {
		return nil
	}
	_, refines := d.(model.Refiner)
	remasks := samplers.Is[samplers.Remasker](r.Sampler) || samplers.Is[samplers.Judge](r.Sampler)
	what := r.Reuse.String() + " reuse"
	err := cmp.Or(
		without(refines || r.Reuse == Causal, "reuse", param.Unsupported, what,
			"model: it has no partial passes"),
		without(!remasks, "reuse", param.NoEffect, what,
			"sampler: it masks positions again, so no key or value stays"))
	switch {
	case err != nil:
		return err
	case r.Reuse == Blocks:
		return r.checkBlocks(d)
	case r.Reuse == Causal:
		return r.checkCausal(d)
	}
	return without(samplers.Is[samplers.Blocker](r.Sampler) || r.Reuse == Delayed ||
		r.Reuse == Finished, "reuse", param.NoEffect, what,
		"sampler: it has no blocks, such as those of semi-ar")
}

// checkLength returns an error for a sampler that changes a sequence's length in a run that cannot.
func (r Recipe) checkLength(d model.Denoiser) error {
	grows := samplers.Is[samplers.Grower](r.Sampler) && d.Spec().Growth != nil
	none := "none with " + samplers.Text(r.Sampler)
	return cmp.Or(
		r.unless(!grows || r.Reuse == NoReuse, "reuse", none+": positions move", param.NoEffect),
		r.unless(!samplers.Is[samplers.Resizer](r.Sampler) || r.Reuse == NoReuse, "reuse",
			none+": the length changes", param.NoEffect))
}

// checkDrafts returns an error for a sampler that drafts or opens several blocks at once, where
// that and other parameters do not go together.
func (r Recipe) checkDrafts() error {
	drafts := samplers.Is[samplers.Proposer](r.Sampler)
	pipelined := samplers.Is[samplers.Pipeliner](r.Sampler)
	return cmp.Or(
		without(!drafts || r.Window == 0, "window", param.NoEffect, "window", "sampler: it drafts"),
		without(!drafts || r.Reuse == NoReuse, "reuse", param.NoEffect, r.Reuse.String()+" reuse",
			"sampler: it drafts, and drafts have no keys and values of their own"),
		without(r.Reuse != Finished || pipelined, "reuse", param.NoEffect, "finished reuse",
			"sampler: it does not open several blocks at once, as multi-block does"),
		r.unless(!pipelined || r.Reuse != Blocks && r.Reuse != Causal, "reuse",
			"none, dkv or finished with "+samplers.Text(r.Sampler), param.NoEffect))
}

// guides returns an error if there is guidance but no condition. A model that takes no condition is
// guided by the tokens known from the start (Nie et al. 2025, LLaDA, generate.py).
func (r Recipe) guides(spec model.Spec, tokens []int32) error {
	return r.unless(r.Guidance.Scale == 0 || spec.IsConditional() ||
		len(tokens)-spec.CountMasked(tokens) > spec.SpecialCount(), "guidance",
		"0: this model takes no condition, and no token is known", param.Unsupported)
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
	_, idles := r.Schedule.(samplers.Idler)
	_, most = r.blocks(free)
	return most, free > 0 && !samplers.Is[samplers.Planner](r.Sampler) &&
		!samplers.Is[samplers.Remasker](r.Sampler) && !idles && r.Reuse != Blocks && r.Reuse != Causal
}

// MaxSteps returns the most steps that a recipe from Fit takes for `free` masked positions.
func (r Recipe) MaxSteps(free int) (steps int, err error) {
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
	most, bounded := r.useful(free)
	return r.Steps, cmp.Or(
		r.unless(!bounded || r.Steps <= most, "steps",
			fmt.Sprintf("1 to %d: each opens one position at least", most), param.OutOfRange),
		r.unless(r.Steps >= n, "steps", fmt.Sprintf("%d or more: one a block at least", n),
			param.OutOfRange))
}
