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
	seed    uint64
	mask    int32
	initial layout
	network *network
	// returns the loop of a member, perhaps in the memory of its last one
	newLoop func(*member) loop
	steps   int     // the most that a sequence takes
	blocks  int     // of the sampler, if it has its own
	ends    []int32 // tokens that end a sequence once everything before them is open

	// nil: no more than the filter's
	adjust func(sequence, position int, logits []float32)
	edit   func(*Sequence) error
	scale  guide.Scale      // nil without guidance
	given  *model.Condition // the known positions, as condition of a model that takes no other

	// What the sampler can do.
	adapts   bool // it decides how many positions a step opens
	idles    bool // its schedule has steps that open nothing, which need no pass
	remasks  bool // it closes positions
	revises  bool // it closes positions or replaces tokens
	ahead    bool
	clock    samplers.Clock
	stateful samplers.Stateful
}

// layout is what a sequence has before its first step.
type layout struct {
	shape []int
	start []int32 // [length] tokens
	free  []int   // positions masked at the start, ascending
}

// newTask builds the task of a recipe that Fit returned.
func (p *Pool) newTask(r Recipe, seed uint64, length int, tokens, ends []int32) (*task, error) {
	of, err := p.network(r.BlockSize)
	if err != nil {
		return nil, err
	}
	spec := of.spec
	t := &task{Recipe: r, seed: seed, mask: spec.Mask, network: of,
		initial: newLayout(spec, length, tokens)}
	if t.steps, t.blocks, err = r.plan(len(t.initial.free)); err != nil {
		return nil, err
	}
	t.adapts = r.plansItself()
	_, t.remasks = samplers.As[samplers.Remasker](r.Sampler)
	_, t.ahead = samplers.As[samplers.Lookahead](r.Sampler)
	t.clock, _ = samplers.As[samplers.Clock](r.Sampler)
	t.stateful, _ = samplers.As[samplers.Stateful](r.Sampler)
	t.revises = t.remasks
	if r.Reuse == Blocks {
		k := newBlockwork(spec, r, ends)
		t.newLoop = func(m *member) loop { return remake(m.loop, blockLoop{member: m, blockwork: k}) }
		t.revises = k.post >= 0
		if t.steps > 0 {
			t.steps = k.maxSteps(length)
		}
	} else {
		t.newLoop = func(m *member) loop { return remake(m.loop, wholeLoop{member: m}) }
		_, idles := r.Schedule.(samplers.Idler)
		t.idles = idles && !t.adapts
	}
	if !t.revises {
		t.ends = slices.Clone(ends)
	}
	return t, t.guide(spec)
}

func newLayout(spec model.Spec, length int, tokens []int32) layout {
	l := layout{shape: spec.Shape, start: slices.Clone(tokens)}
	if length != spec.Length() {
		l.shape = []int{length}
	}
	if tokens == nil {
		l.start = slices.Repeat([]int32{spec.Mask}, length)
	}
	for p, token := range l.start {
		if token == spec.Mask {
			l.free = append(l.free, p)
		}
	}
	return l
}

// guide sets the guidance scale, and the condition that it needs on an unconditional model.
func (t *task) guide(spec model.Spec) (err error) {
	if t.Guidance.Scale == 0 {
		return nil
	}
	if t.scale, err = guide.Schedule(t.Guidance.Schedule, t.Guidance.Scale); err != nil {
		return err
	}
	if !spec.Conditional() {
		t.given = &model.Condition{Class: model.NoClass, Given: known(t.initial.start, spec.Mask)}
	}
	return nil
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

// caches reports whether the task keeps keys and values between passes.
func (t *task) caches() bool { return t.Cache > 0 || t.Reuse != NoReuse }
