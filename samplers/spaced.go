package samplers

import "fmt"

// Spaced opens what a sampler of its own pace finds ready, but no two positions that are near: it
// goes through them, the best first, and keeps one if it is a gap away from all that it kept
// (Luxembourg et al. 2025, arXiv 2506.19037, apply_spacing_filter of the authors' program). The gap
// is masks*Stride/block, rounded down, and at least 2, so it narrows as the block fills. What is
// left out waits for a later step, in which the model has seen what opened beside it.
//
// The authors' entropy budget, of which they say how much the filter gains, is in bits; that of eb
// is in nats.
type Spaced struct {
	Inside Sampler `inside:"threshold"`
	Stride int     `param:"stride 1..1048576 =8" help:"gap between positions that open together while all are masked"`
}

// Needs what the sampler inside needs.
func (s Spaced) Needs(step, steps int) Need { return innerSampler(s).Needs(step, steps) }

// Choose returns what is apart of the choice of the sampler inside.
func (s Spaced) Choose(v *View) (Opening, error) {
	o, err := innerSampler(s).Choose(v)
	if err != nil {
		return o, err
	}
	size := max(1, v.BlockTo-v.BlockFrom)
	return v.keepApart(o, max(2, len(v.Masked)*WithDefaults(s).Stride/size)), nil
}

// keepApart returns an opening with those of its positions that are at least gap away from all
// before them that it keeps.
func (v *View) keepApart(o Opening, gap int) Opening {
	isNear := make([]bool, len(v.Tokens))
	apart := o
	apart.Positions = v.Ints(len(o.Positions))[:0]
	apart.Tokens = nil
	apart.LogP = nil
	for j, position := range o.Positions {
		if isNear[position] {
			continue
		}
		for near := max(0, position-gap+1); near < min(len(isNear), position+gap); near++ {
			isNear[near] = true
		}
		apart.Positions = append(apart.Positions, position)
		if o.Tokens != nil {
			apart.Tokens = append(apart.Tokens, o.Tokens[j])
		}
		if o.LogP != nil {
			apart.LogP = append(apart.LogP, o.LogP[j])
		}
	}
	return apart
}

// Check returns an error for a sampler inside whose steps mean something else once a part of them
// is left out.
func (s Spaced) Check() error {
	in := innerSampler(s)
	switch {
	case !Is[SelfPaced](in):
		return fmt.Errorf("samplers: spaced around %s, want a sampler of its own pace, such as threshold",
			Text(in))
	case Is[Dilated](in):
		return fmt.Errorf("samplers: spaced around dilated, want another sampler: its levels are apart")
	case Is[Blocker](in):
		return fmt.Errorf("samplers: spaced around a sampler with blocks, want spaced inside them")
	case Is[Judge](in) || Is[Editor](in) || Is[RunChecker](in) || Is[Remasker](in):
		return fmt.Errorf("samplers: spaced around a sampler that checks what it opened, want one that " +
			"does not")
	case Is[Partitioner](in) || Is[Resizer](in) || Is[Clock](in):
		return fmt.Errorf("samplers: spaced around %s, want a sampler that goes by positions alone",
			Text(in))
	}
	return nil
}
