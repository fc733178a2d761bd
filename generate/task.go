package generate

import (
	"slices"

	"unmask/guide"
	"unmask/model"
	"unmask/samplers"
)

// task has what all sequences of a run, or one sequence of a pool, share. It never changes.
type task struct {
	Recipe
	seed   uint64
	shape  []int
	start  []int32 // [length] tokens before the first step
	free   []int   // positions masked at the start
	steps  int
	blocks int                                            // into which the sampler divides free
	stops  []int32                                        // tokens that end a sequence at once
	adjust func(sequence, position int, logits []float32) // nil: no more than the filter's
	edit   func(*Sequence) error
	scale  guide.Scale      // nil without guidance
	given  *model.Condition // the known positions, as condition of a model that takes no other

	network *network
	blockwork

	// What the sampler can do.
	adapts   bool // it decides how many positions a step opens
	remasks  bool
	ahead    bool
	clock    samplers.Clock
	stateful samplers.Stateful
}

// task builds the task of a recipe that Fit returned.
func (p *Pool) task(r Recipe, seed uint64, length int, tokens, ends []int32) (*task, error) {
	of, err := p.network(r.BlockSize)
	if err != nil {
		return nil, err
	}
	spec := of.spec
	t := &task{Recipe: r, seed: seed, shape: spec.Shape, start: slices.Clone(tokens), network: of,
		blockwork: newBlockwork(spec, r, ends)}
	if length != spec.Length() {
		t.shape = []int{length}
	}
	if tokens == nil {
		t.start = slices.Repeat([]int32{spec.Mask}, length)
	}
	for p, token := range t.start {
		if token == spec.Mask {
			t.free = append(t.free, p)
		}
	}
	if t.steps, t.blocks, err = r.plan(len(t.free)); err != nil {
		return nil, err
	}
	if r.Reuse == Blocks && t.steps > 0 {
		t.steps = t.most(length)
	}
	if r.Guidance.Scale != 0 {
		if t.scale, err = guide.Schedule(r.Guidance.Schedule, r.Guidance.Scale); err != nil {
			return nil, err
		}
		if !spec.Conditional() {
			t.given = &model.Condition{Class: model.NoClass, Given: known(t.start, spec.Mask)}
		}
	}
	t.adapts = r.plansItself()
	_, t.remasks = samplers.As[samplers.Remasker](r.Sampler)
	_, t.ahead = samplers.As[samplers.Lookahead](r.Sampler)
	t.clock, _ = samplers.As[samplers.Clock](r.Sampler)
	t.stateful, _ = samplers.As[samplers.Stateful](r.Sampler)
	if !t.remasks && t.post < 0 {
		t.stops = slices.Clone(ends)
	}
	return t, nil
}

// known returns the positions of tokens that are not masked.
func known(tokens []int32, mask int32) (positions []int32) {
	for p, t := range tokens {
		if t != mask {
			positions = append(positions, int32(p))
		}
	}
	return positions
}

// filtered reports whether the logits of the task's rows differ from the model's.
func (t *task) filtered() bool { return !t.Filter.None() || t.adjust != nil }

// cached reports whether the task keeps keys and values between passes.
func (t *task) cached() bool { return t.Cache > 0 || t.Reuse != NoReuse }
