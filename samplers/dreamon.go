package samplers

import "fmt"

// DreamOn fills a hole of unknown length (Wu et al. 2026, DreamOn; generation_utils.py and the
// infilling evaluation of Dream-org/DreamOn-v0-7B). Each step opens a few positions. One that
// becomes the model's expand token turns into two masks, one that becomes its delete token is
// removed. It needs a model with both (model.Spec.Growth).
type DreamOn struct {
	Inside Sampler `inside:"entropy"`
	Each   int     `param:"each 1..1048576 =1" help:"positions that a step opens"`
	New    int     `param:"new 1..1048576 =64" help:"the most tokens that the holes may become together"`
	Budget int     `param:"budget 1..1048576 0=by the length" help:"most expansions; 0: twice the positions from the first hole on"`
	Spill  int     `param:"spill 0..1 =0" help:"1: with the first removed mask all masks right of it are removed"`
	ownPace
}

// Grower is a Sampler under which sequences change their length.
type Grower interface{ Growth() DreamOn }

// Growth implements Grower, with the defaults of fields that do not depend on the sequence.
func (d DreamOn) Growth() DreamOn { return WithDefaults(d) }

// Check returns an error for a sampler inside that masks open positions again: a position that was
// removed could not be masked.
func (d DreamOn) Check() error {
	if Is[Remasker](innerSampler(d)) {
		return fmt.Errorf("samplers: dreamon around a sampler that masks again, want one that does not")
	}
	return nil
}

// Needs what the sampler inside needs.
func (d DreamOn) Needs(step, steps int) Need { return innerSampler(d).Needs(step, steps) }

// Choose opens Each positions, whatever the schedule's quota.
func (d DreamOn) Choose(v *View) (Opening, error) {
	d = WithDefaults(d)
	quota := v.Quota
	v.Quota = min(d.Each, len(v.Masked))
	o, err := innerSampler(d).Choose(v)
	v.Quota = quota
	return o, err
}
