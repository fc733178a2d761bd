package samplers

import (
	"cmp"
	"fmt"

	"unmask/param"
)

// DreamOn fills a hole of unknown length (Wu et al. 2026, DreamOn; generation_utils.py and the
// infilling evaluation of Dream-org/DreamOn-v0-7B). Each step opens a few positions. One that
// becomes the model's expand token turns into two masks, one that becomes its delete token is
// removed. It needs a model with both (model.Spec.Growth).
type DreamOn struct {
	Inside Sampler // chooses and draws; nil means the order Entropy
	Each   int     // positions that a step opens; 0 means 1
	New    int     // the longest that all holes together may become; 0 means 64
	Budget int     // of expansions; 0: twice the length from the first mask to the greatest end
	Spill  int     // 1: the masks right of the first removed position are removed with it
	ownPace
}

var dreamonRule = Rule[DreamOn]{
	Name: "dreamon", Line: "a hole that grows and shrinks as the model fills it",
	Paper: "Wu et al. 2026, DreamOn",
	Params: []Param[DreamOn]{
		Whole(func(d *DreamOn) *int { return &d.Each },
			param.Param{Name: "each", Min: 1, Max: 1 << 20, Default: "1",
				Help: "positions that a step opens"}),
		Whole(func(d *DreamOn) *int { return &d.New },
			param.Param{Name: "new", Min: 1, Max: 1 << 20, Default: "64",
				Help: "the most tokens that the holes may become together"}),
		Whole(func(d *DreamOn) *int { return &d.Budget },
			param.Param{Name: "budget", Min: 1, Max: 1 << 20, Zero: "by the length", Default: "0",
				Help: "most expansions; 0 for twice the positions from the first hole to the greatest end"}),
		Whole(func(d *DreamOn) *int { return &d.Spill },
			param.Param{Name: "spill", Min: 0, Max: 1, Default: "0",
				Help: "1: with the first removed mask all masks right of it are removed"}),
	},
	Inside: []Inside[DreamOn]{
		SamplerInside(func(d *DreamOn) *Sampler { return &d.Inside }, ChooseThenSample{Order: Entropy{}}),
	},
}

// Grower is a Sampler under which sequences change their length.
type Grower interface{ Growth() DreamOn }

// Growth implements Grower, with the defaults of fields that do not depend on the sequence.
func (d DreamOn) Growth() DreamOn {
	d.Each, d.New = cmp.Or(d.Each, 1), cmp.Or(d.New, 64)
	return d
}

// Check returns an error for a sampler inside that masks open positions again.
func (d DreamOn) Check() error {
	if _, ok := As[Remasker](d.inside()); ok {
		return fmt.Errorf("samplers: dreamon around a sampler that masks again, want one that does not")
	}
	return nil
}

func (d DreamOn) inside() Sampler {
	return cmp.Or[Sampler](d.Inside, ChooseThenSample{Order: Entropy{}})
}

// Needs what the sampler inside needs.
func (d DreamOn) Needs(step, steps int) Need { return d.inside().Needs(step, steps) }

// Choose opens Each positions.
func (d DreamOn) Choose(v *View) (Opening, error) {
	quota := v.Quota
	v.Quota = min(d.Growth().Each, len(v.Masked))
	o, err := d.inside().Choose(v)
	v.Quota = quota
	return o, err
}

// Uncached returns why there can be no second stage.
func (DreamOn) Uncached() string { return "dreamon changes the length after each step" }

// Unwrap returns the sampler inside.
func (d DreamOn) Unwrap() []any { return []any{d.inside()} }
